.DEFAULT_GOAL := help
.PHONY: help run test torture torture-long lint generate bench bench-smoke

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

run: ## the service on http://127.0.0.1:8080, with an etcd inside, keeping its data in holdfast-data
	go build -o bin/holdfast ./cmd/api && exec bin/holdfast

test: ## every test, with the race detector, against real etcd and whole processes
	go -C bench test -race ./...
	go test -race -p 1 -timeout 20m ./...

torture-long: ## histories under faults for DURATION=1h, from SEED=n, in rounds of five minutes; those that cannot be are kept in KEEP=dir
	go test -race -timeout 0 -v -run '^TestHistoryUnderFaults$$' ./test/history \
		-history.duration=$(or $(DURATION),1h) -history.seed=$(or $(SEED),0) -history.keep='$(KEEP)'

torture: ## the tests of faults once more, at their whole size: for a machine that has nothing else to do
	go test -race -count 1 -timeout 30m ./test/torture -torture.long

lint: ## the linters of the code and of the contract
	scripts/golangci-lint run ./...
	cd bench && ../scripts/golangci-lint run ./...
	scripts/lint-openapi

generate: ## what is generated from the contract
	go generate ./...

bench: ## speeds beside raw etcd and its peers, half an hour on a quiet machine; into bench/results
	cd bench && go run .

bench-smoke: ## the ratios in two minutes; fails when one is worse than bench/baseline.json by more than a third
	cd bench && go run . --smoke --rounds=3 --lasts=1s
