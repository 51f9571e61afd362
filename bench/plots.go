package main

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// plots gathers what is drawn. A nil one draws nothing.
type plots struct{ all []chart }

// chart is one figure of every library.
type chart struct {
	file, title, unit string
	figures           []float64 // as contenders
}

func (p *plots) add(file, title, unit string, figure func(who string) float64) {
	if p == nil {
		return
	}
	c := chart{file: file, title: title, unit: unit}
	for _, who := range contenders {
		c.figures = append(c.figures, figure(who))
	}
	p.all = append(p.all, c)
}

// save writes each chart as a PNG, and returns the names of the files.
func (p *plots) save(folder string) (files []string, err error) {
	for _, c := range p.all {
		file := c.file + ".png"
		if err := c.save(filepath.Join(folder, file)); err != nil {
			return nil, fmt.Errorf("plot %s: %w", c.file, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// save draws a row for each library, and a point on a logarithmic
// scale: bars would need a zero, which that has not.
func (c chart) save(path string) error {
	p := plot.New()
	p.Title.Text = c.title
	p.X.Label.Text = c.unit
	low, high := math.Inf(1), math.Inf(-1)
	points, labels := plotter.XYs{}, []string{}
	for i, v := range c.figures {
		if !(v > 0) || math.IsInf(v, 0) { // it failed, or has no place on a logarithmic scale
			continue
		}
		low, high = min(low, v), max(high, v)
		points = append(points, plotter.XY{X: v, Y: float64(len(contenders) - 1 - i)})
		labels = append(labels, fmt.Sprintf("  %.3g", v))
	}
	if len(points) > 0 {
		scatter, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		scatter.GlyphStyle = draw.GlyphStyle{
			Color:  color.RGBA{B: 0xa0, G: 0x50, A: 0xff},
			Radius: vg.Points(5), Shape: draw.CircleGlyph{},
		}
		figures, err := plotter.NewLabels(plotter.XYLabels{XYs: points, Labels: labels})
		if err != nil {
			return err
		}
		p.Add(plotter.NewGrid(), scatter, figures)
		p.X.Min, p.X.Max = low/2, high*4
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	names := make([]string, len(contenders))
	for i, who := range contenders {
		names[len(contenders)-1-i] = who
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -1, float64(len(contenders))
	const width, height = 7 * vg.Inch, 2.6 * vg.Inch
	return p.Save(width, height, path)
}
