package report_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-lock/holdfast/bench/report"
)

func rows(high, low float64) *report.Report {
	return &report.Report{Rows: []report.Row{
		{Measure: "pairs", Of: "embedded", Ratio: report.Spread{Median: high}, Goal: report.RatioAtLeast(0.75)},
		{Measure: "p50", Of: "embedded", Ratio: report.Spread{Median: low}, Goal: report.RatioAtMost(1.1)},
		{Measure: "hand-over", Of: "embedded", Value: report.Spread{Median: 7}},
	}}
}

func TestALossOfMoreThanAThirdIsOne(t *testing.T) {
	b := rows(0.9, 1.0).NewBaseline()
	for _, c := range []struct {
		high, low float64
		lost      int
	}{{0.9, 1.0, 0}, {0.61, 1.49, 0}, {0.59, 1.0, 1}, {0.9, 1.51, 1}, {0.1, 9, 2}, {2, 0.1, 0}} {
		if got := rows(c.high, c.low).Losses(b); len(got) != c.lost {
			t.Errorf("%v and %v after 0.9 and 1.0: got %q, want %d losses", c.high, c.low, got, c.lost)
		}
	}
	if got := (&report.Report{}).Losses(b); len(got) != 2 {
		t.Errorf("got %q, want that both were not measured", got)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want report.Spread
	}{
		{nil, report.Spread{}},
		{[]float64{3, 1, 2}, report.Spread{Median: 2, Low: 1, High: 3}},
		{[]float64{4, 1, 2, 3}, report.Spread{Median: 2.5, Low: 1, High: 4}},
	} {
		if got := report.NewSpread(c.of); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.of, got, c.want)
		}
	}
}

func TestATableSaysWhatWasMissed(t *testing.T) {
	lines := slices.Collect(strings.Lines(rows(0.5, 1.0).Markdown()))
	for i, want := range []string{"**missed**", "met", ""} {
		cells := strings.Split(strings.TrimSpace(lines[i+2]), "|")
		if got := strings.TrimSpace(cells[len(cells)-2]); got != want {
			t.Errorf("got %q, want %q in %s", got, want, lines[i+2])
		}
	}
}

func TestAReportIsReadAsItWasWritten(t *testing.T) {
	path := t.TempDir() + "/report.json"
	if err := rows(1, 2).WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	got, err := report.ReadJSON(path)
	if err != nil || got.Markdown() != rows(1, 2).Markdown() {
		t.Errorf("got %+v, %v", got, err)
	}
}
