// Command bench measures Holdfast beside the limit, which is raw etcd, and
// beside its peers, on one machine in one run.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-lock/holdfast/bench/report"
	"github.com/holdfast-lock/holdfast/bench/rig"
)

type flags struct {
	Run   Run   `cmd:"" default:"withargs" help:"Measure."`
	Crowd Crowd `cmd:"" hidden:""`
	Floor Floor `cmd:"" hidden:""`
}

// Run is the command that measures.
type Run struct {
	Rounds int           `default:"5" help:"How often each side of a measure has its turn."`
	Lasts  time.Duration `default:"2s" help:"How long such a turn is."`
	Only   string        `help:"Only this group of measures: pairs-1, pairs-16, pairs-64, latency, steady, guards, hand-over, contended, crash, lines, held or many."`
	Smoke  bool          `help:"Only the ratios, in short, and how they are beside the baseline."`
	Keep   bool          `help:"With --smoke: make these ratios the baseline."`
	Root   string        `default:".." help:"The service's module."`
	Dir    string        `help:"Where the data is kept meanwhile, which decides on the disk. The system's place for temporary files when left out."`
	Out    string        `default:"results" help:"Where the results are written."`
}

func main() {
	var f flags
	ctx := kong.Parse(&f, kong.Name("bench"), kong.Description("Measures Holdfast beside raw etcd and its peers."))
	ctx.FatalIfErrorf(ctx.Run())
}

// group is what is measured together.
type group struct {
	name string
	run  func(b *bench) error
}

var groups = []group{
	{"pairs-1", func(b *bench) error { return b.pairs(1, true) }},
	{"pairs-16", func(b *bench) error { return b.pairs(16, true) }},
	{"pairs-64", func(b *bench) error { return b.pairs(64, true) }},
	{"latency", func(b *bench) error { return b.acquireLatency() }},
	{"steady", func(b *bench) error { return b.steadyLatency(500) }},
	{"guards", func(b *bench) error { return b.guards() }},
	{"hand-over", func(b *bench) error {
		for _, ms := range []int{10, 30, 100, 300} {
			if err := b.handOver(time.Duration(ms)*time.Millisecond, 10); err != nil {
				return err
			}
		}
		return nil
	}},
	{"contended", func(b *bench) error { return b.contended(true) }},
	{"crash", func(b *bench) error { return b.crash(300) }},
	{"lines", func(b *bench) error { return b.lines(1, 100, 10_000) }},
	{"held", func(b *bench) error { return b.held(15_000) }},
	{"many", func(b *bench) error { return b.many(100_000, time.Minute) }},
}

var smoke = []group{
	{"pairs-64", func(b *bench) error { return b.pairs(64, false) }},
	{"latency", func(b *bench) error { return b.acquireLatency() }},
	{"guards", func(b *bench) error { return b.guards() }},
	{"contended", func(b *bench) error { return b.contended(false) }},
}

// Run is called by kong.
func (r *Run) Run() error {
	tools, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	machine, err := rig.Start(r.Root, filepath.Join(tools, "holdfast-bench"), r.Dir, !r.Smoke)
	if err != nil {
		return err
	}
	defer machine.Stop()
	b, err := newBench(machine, r.Rounds, r.Lasts)
	if err != nil {
		return err
	}
	all := groups
	if r.Smoke {
		all = smoke
	}
	for _, g := range all {
		if r.Only != "" && g.name != r.Only {
			continue
		}
		if err := g.run(b); err != nil {
			return err
		}
	}
	if r.Smoke {
		return r.compare(b.report)
	}
	return r.write(b.report)
}

// write keeps the results, and shows them.
func (r *Run) write(rep *report.Report) error {
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	name := "latest"
	if r.Only != "" {
		name = "latest-" + r.Only
	}
	path := filepath.Join(r.Out, name)
	if err := rep.WriteJSON(path + ".json"); err != nil {
		return err
	}
	if err := rep.WriteSVG(path + ".svg"); err != nil {
		return err
	}
	if err := os.WriteFile(path+".md", []byte(rep.Markdown()), 0o644); err != nil {
		return err
	}
	fmt.Print(rep.Markdown())
	return nil
}

// baseline is the file with the ratios that --smoke compares with.
const baseline = "baseline.json"

func (r *Run) compare(rep *report.Report) error {
	fmt.Print(rep.Markdown())
	if r.Keep {
		text, err := json.MarshalIndent(rep.NewBaseline(), "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(baseline, append(text, '\n'), 0o644)
	}
	text, err := os.ReadFile(baseline)
	if err != nil {
		return err
	}
	var was report.Baseline
	if err := json.Unmarshal(text, &was); err != nil {
		return fmt.Errorf("%s: %w", baseline, err)
	}
	if lost := rep.Losses(was); len(lost) > 0 {
		return errors.New("slower by more than a third:\n" + strings.Join(lost, "\n"))
	}
	fmt.Println("no ratio is worse than the baseline by more than a third")
	return nil
}
