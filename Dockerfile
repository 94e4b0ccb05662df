# The version is that of go.mod.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /out/holdfast ./cmd/api \
 && install -d -m 0700 /out/data

FROM scratch
# Authorities, to reach an etcd over TLS whose certificate is from a public one.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/holdfast /holdfast
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV HOLDFAST_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
# Inside a container loopback reaches nobody: start it with
# HOLDFAST_LISTEN=:8080, and say with HOLDFAST_INSECURE=true that you mean it.
ENTRYPOINT ["/holdfast"]
