package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/alecthomas/kong"
)

// Config is everything that can be set. Each field is a flag, and a variable
// HOLDFAST_… of the same name; its help is the manual.
type Config struct {
	Listen   string `default:"127.0.0.1:8080" help:"Address to serve HTTP on. Without --insecure it must be a loopback address."`
	Insecure bool   `help:"Serve on any address although nobody has to say who they are. Whoever reaches it can take, give back and break every lock."`

	Etcd             []string      `placeholder:"ENDPOINT" help:"Endpoints of an etcd cluster: host:port, or URLs with http, https or unix. Left out, an etcd runs inside this process and keeps its data in --data-dir."`
	EtcdCA           string        `name:"etcd-ca" placeholder:"FILE" help:"Certificate authorities to trust etcd by, in PEM; the system's when left out."`
	EtcdCert         string        `placeholder:"FILE" help:"Certificate to show to etcd, in PEM, together with --etcd-key. Read again for every connection."`
	EtcdKey          string        `placeholder:"FILE" help:"Key of --etcd-cert, in PEM."`
	EtcdUser         string        `placeholder:"NAME" help:"User to log in to etcd as, together with --etcd-password-file."`
	EtcdPasswordFile string        `placeholder:"FILE" help:"File with the password of --etcd-user. A newline at its end is not part of it."`
	EtcdTimeout      time.Duration `default:"5s" help:"How long an etcd call may take; the outcome of one that was not answered is unknown. Also how long a start waits for the endpoints of --etcd. From 100ms to 1m."`
	DataDir          string        `default:"holdfast-data" help:"Directory of the etcd inside this process, for one process at a time. It is created with mode 0700. The socket etcd.sock in it is for etcdctl."`
	Prefix           string        `default:"/holdfast/v1/" help:"What every key in etcd begins with. Replicas with the same prefix are one service. Begins and ends with a slash."`

	Undeclared        string        `default:"allow" enum:"allow,deny" help:"Whether a mutex can be used that was not declared: allow or deny."`
	DefaultTTL        time.Duration `name:"default-ttl" default:"10s" help:"Ttl of mutexes that say nothing else: the owner must guard before it ends. From 100ms to 24h."`
	DefaultTransition time.Duration `default:"6s" help:"Transition after the ttl, in which the owner alone can still guard. From 0s to 1h."`
	MaxWait           time.Duration `default:"50s" help:"The longest poll. Keep it below the time-outs of the proxies in front, which are often 60s. From 1ms to 1h."`

	Drain     time.Duration `default:"10s" help:"The longest that the end may take after SIGTERM or SIGINT: polls are told to go to another replica, what is in flight is served. With nothing in flight it is at once. A second signal ends the process as it is. From 0s to 1h."`
	Pprof     string        `placeholder:"ADDRESS" help:"Loopback address to serve profiles on, for go tool pprof. None when left out."`
	LogLevel  slog.Level    `default:"info" help:"The least level that is logged, to stderr: debug, info, warn or error."`
	LogFormat string        `default:"auto" enum:"auto,text,json" help:"Format of the log: text, json, or auto, which is text on a terminal and json elsewhere."`
}

const description = `Holdfast is an HTTP lock service: it serves named mutexes, kept in etcd, to whatever can speak HTTP.

Every flag can be given as the variable beside it; a flag goes before its variable.
Durations are written like 1500ms, 10s or 1m30s. Lists are separated by commas.
A start that is refused prints one line that says why, and ends with status 1.`

// parse returns the configuration of args and the environment, checked. ok is
// false when help was asked for, and printed to stdout. An error is one line
// that names the flag.
func parse(args []string, stdout io.Writer) (cfg Config, ok bool, err error) {
	helped := false
	parser, err := kong.New(&cfg,
		kong.Name("holdfast"),
		kong.Description(description),
		kong.DefaultEnvars("HOLDFAST"),
		kong.Writers(stdout, io.Discard),
		// Kong would end the process, with a status of its own.
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		return cfg, false, fmt.Errorf("flags: %w", err)
	}
	_, err = parser.Parse(args)
	if helped {
		return cfg, false, nil
	}
	if err != nil {
		return cfg, false, err
	}
	return cfg, true, cfg.check()
}
