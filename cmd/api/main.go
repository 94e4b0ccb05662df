// Command api is Holdfast, an HTTP lock service in front of etcd. Its manual
// is --help.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process as it is
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it serves until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, ok, err := parse(args, stdout)
	if err != nil {
		return refuse(stderr, err)
	}
	if !ok {
		return 0
	}
	log, openLog := newLog(stderr, cfg)
	app := New(cfg, log)
	if err := app.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return 0 // it was told to end while it started
		}
		return refuse(stderr, err)
	}
	openLog()
	select {
	case <-ctx.Done():
		log.Info("draining", "at_most", cfg.Drain.String())
		app.Stop()
		log.Info("stopped")
		return 0
	case err := <-app.Err():
		log.Error("ends", "error", err)
		app.Stop()
		return 1
	}
}

// refuse says in one line why the program did not start.
func refuse(stderr io.Writer, err error) int {
	_, _ = fmt.Fprintln(stderr, "holdfast: "+strings.Join(strings.Fields(err.Error()), " "))
	return 1
}
