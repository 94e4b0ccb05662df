module github.com/holdfast-lock/holdfast

go 1.26.0
