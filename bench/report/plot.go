package report

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// WriteSVG draws the ratios that have goals: how many times as good as the goal
// each is.
func (r *Report) WriteSVG(path string) error {
	p := plot.New()
	p.Title.Text = "Ratios beside their goals: right of the line is met"
	p.X.Label.Text = "times the goal"
	p.X.Min = 0
	var bars plotter.Values
	var names []string
	for _, row := range r.Rows {
		if !row.Goal.OfRatio || row.Ratio.Median == 0 {
			continue
		}
		v := row.Ratio.Median / row.Goal.Limit
		if row.Goal.Is == "<=" {
			v = 1 / v
		}
		bars, names = append(bars, v), append(names, row.Measure+", "+row.Of)
	}
	if len(bars) == 0 {
		bars, names = plotter.Values{0}, []string{"no ratio has a goal"}
	}
	chart, err := plotter.NewBarChart(bars, vg.Points(12))
	if err != nil {
		return err
	}
	chart.Horizontal, chart.Color = true, color.RGBA{R: 70, G: 110, B: 160, A: 255}
	goal, err := plotter.NewLine(plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(bars)) - 0.5}})
	if err != nil {
		return err
	}
	p.Add(chart, goal)
	p.NominalY(names...)
	return p.Save(24*vg.Centimeter, vg.Length(len(bars)+3)*vg.Centimeter, path)
}
