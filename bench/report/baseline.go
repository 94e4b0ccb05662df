package report

import (
	"fmt"
	"maps"
	"slices"
)

// loss is how much of a ratio may be lost before it is more than noise.
const loss = 1.0 / 3

// Baseline is the ratios that are compared from change to change, by row.
type Baseline map[string]Kept

// Kept is one ratio of a baseline.
type Kept struct {
	Ratio  float64 `json:"ratio"`
	Better string  `json:"better"` // "higher" or "lower"
}

// NewBaseline keeps the ratios of the rows that have a goal for them.
func (r *Report) NewBaseline() Baseline {
	b := Baseline{}
	for _, row := range r.Rows {
		if row.Goal.OfRatio {
			better := map[string]string{">=": "higher", "<=": "lower"}[row.Goal.Is]
			b[row.Key()] = Kept{row.Ratio.Median, better}
		}
	}
	return b
}

// Losses says which ratios lost more than a third beside the baseline, or are
// missing.
func (r *Report) Losses(b Baseline) (lost []string) {
	now := r.NewBaseline()
	for _, key := range slices.Sorted(maps.Keys(b)) {
		was, is := b[key], now[key]
		if _, ok := now[key]; !ok {
			lost = append(lost, key+": not measured")
			continue
		}
		worse := is.Ratio < was.Ratio*(1-loss)
		if was.Better == "lower" {
			worse = is.Ratio > was.Ratio/(1-loss)
		}
		if worse {
			lost = append(lost, fmt.Sprintf("%s: %s ×, was %s ×", key, number(is.Ratio), number(was.Ratio)))
		}
	}
	return lost
}
