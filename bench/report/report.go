// Package report keeps what was measured, and shows it.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is one run.
type Report struct {
	At       time.Time `json:"at"`
	CPUs     int       `json:"cpus"`
	Go       string    `json:"go"`
	Rounds   int       `json:"rounds"`
	LastsSec float64   `json:"seconds_per_sample"`
	Rows     []Row     `json:"rows"`
}

// New returns an empty report.
func New(rounds int, lasts time.Duration) *Report {
	return &Report{
		At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Go: runtime.Version(),
		Rounds: rounds, LastsSec: lasts.Seconds(),
	}
}

// Row is one measure of one thing.
type Row struct {
	Measure string `json:"measure"`
	Of      string `json:"of"` // embedded, external, or a peer
	Value   Spread `json:"value"`
	Unit    string `json:"unit"`
	Beside  string `json:"beside,omitempty"` // what Ratio is to
	Ratio   Spread `json:"ratio,omitzero"`   // of the same round
	Goal    Goal   `json:"goal,omitzero"`
}

// Spread is what several rounds came to.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// NewSpread returns that of values, one of each round.
func NewSpread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return Spread{Median: mid, Low: v[0], High: v[len(v)-1]}
}

// Goal is what a row should reach; the zero value is none.
type Goal struct {
	Is      string  `json:"is"` // ">=" or "<="
	Limit   float64 `json:"limit"`
	OfRatio bool    `json:"of_ratio"` // rather than of the value
}

// AtLeast is the goal of a value that should be large.
func AtLeast(v float64) Goal { return Goal{">=", v, false} }

// AtMost is the goal of a value that should be small.
func AtMost(v float64) Goal { return Goal{"<=", v, false} }

// RatioAtLeast is the goal of a ratio that should be large.
func RatioAtLeast(v float64) Goal { return Goal{">=", v, true} }

// RatioAtMost is the goal of a ratio that should be small.
func RatioAtMost(v float64) Goal { return Goal{"<=", v, true} }

// Met reports whether the row's goal is.
func (r Row) Met() bool {
	got := r.Value.Median
	if r.Goal.OfRatio {
		got = r.Ratio.Median
	}
	switch r.Goal.Is {
	case ">=":
		return got >= r.Goal.Limit
	case "<=":
		return got <= r.Goal.Limit
	}
	return true
}

// Key names a row from run to run.
func (r Row) Key() string { return r.Measure + " | " + r.Of }

// WriteJSON writes the report to a file.
func (r *Report) WriteJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Markdown returns the rows as a table.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("| measure | of | median (lowest to highest) | beside | ratio | goal | |\n|---|---|--:|---|--:|--:|---|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s %s | %s | %s | %s | %s |\n",
			row.Measure, row.Of, row.Value, row.Unit, row.Beside, ratio(row.Ratio), row.Goal, row.verdict())
	}
	return b.String()
}

func (s Spread) String() string {
	if s.Low == s.High {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median), number(s.Low), number(s.High))
}

func ratio(s Spread) string {
	if s == (Spread{}) {
		return ""
	}
	return s.String()
}

func (g Goal) String() string {
	if g.Is == "" {
		return ""
	}
	times := ""
	if g.OfRatio {
		times = " ×"
	}
	return strings.NewReplacer(">=", "≥", "<=", "≤").Replace(g.Is) + " " + number(g.Limit) + times
}

func (r Row) verdict() string {
	switch {
	case r.Goal.Is == "":
		return ""
	case r.Met():
		return "met"
	}
	return "**missed**"
}

// number has three digits or so, as one reads them.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
