package page_test

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// board is what we read of tracing/dashboard.json.
type board struct {
	Title  string
	Panels []panel
}

type panel struct {
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }

	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct {
				FillOpacity int
				Stacking    struct{ Mode string }
			}
		}
	}

	lines []line
	most  float64 // of all lines
}

// line is a series of a panel: a value for each scrape, NaN where there is none, and what it stands
// on if the panel stacks.
type line struct {
	name        string
	values, low []float64
}

// testDashboard draws the dashboard's own panels, with what they show of a morning. None is empty.
func testDashboard(t *testing.T, b *browser) {
	text, err := os.ReadFile("../../tracing/dashboard.json")
	require.NoError(t, err)
	var d board
	require.NoError(t, json.Unmarshal(text, &d))
	var read scrapes
	synctest.Test(t, func(t *testing.T) { read = scrape(t) })
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute})
	t.Cleanup(func() { assert.NoError(t, engine.Close()) })
	assert.ElementsMatch(t, []string{
		"LockHeldLong", "LockWaitLong", "LockOverrun", "LockLost", "LockRenewalsFail",
		"LockStoreUnavailable", "LockNotTaken", "LockRefused",
	}, alerted(t, engine, read))
	for i := range d.Panels {
		d.Panels[i].read(t, engine, read)
	}
	drawn := d.draw()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(drawn))
	}))
	t.Cleanup(s.Close)
	p := b.open(t, look{width: boardWidth, height: d.height(), scale: 1.25, dark: true})
	p.visit(s.URL)
	p.fits()
	assert.Zero(t, eval[int](p, `[...document.querySelectorAll("section")].filter(e =>
		e.querySelector("p").offsetTop + 8 < e.querySelector("svg").clientHeight).length`),
		"a legend is over the plot")
	assert.Less(t, len(p.keep("dashboard")), 180_000)
}

// alerted are the alerts of that time: the first loss of an operation makes one too.
func alerted(t *testing.T, engine *promql.Engine, from scrapes) (names []string) {
	t.Helper()
	rules, errs := rulefmt.ParseFile("../../tracing/alerts.yaml", false, model.UTF8Validation)
	require.Empty(t, errs)
	for _, rule := range rules.Groups[0].Rules {
		for _, found := range from.ask(t, engine, rule.Expr, begin, end) {
			if time.Duration(len(found.Floats)-1)*every >= time.Duration(rule.For) {
				names = append(names, rule.Alert)
				break
			}
		}
	}
	return names
}

var (
	begin, end = at(9, 0), at(10, 0)
	steps      = int(end.Sub(begin)/every) + 1
	attribute  = regexp.MustCompile(`{{(\w+)}}`)
	variables  = strings.NewReplacer("$job", ".*", "$operation", ".*",
		"$__rate_interval", fmt.Sprint(int((4*every).Seconds()), "s")) // as Grafana's default is
)

// read evaluates what a panel shows.
func (p *panel) read(t *testing.T, engine *promql.Engine, from scrapes) {
	t.Helper()
	sum := make([]float64, steps)
	for _, target := range p.Targets {
		most := 0.0
		for _, found := range from.ask(t, engine, variables.Replace(target.Expr), begin, end) {
			l := line{low: slices.Clone(sum), values: values(found)}
			l.name = attribute.ReplaceAllStringFunc(target.LegendFormat, func(name string) string {
				return found.Metric.Get(strings.Trim(name, "{}"))
			})
			for i, v := range l.values {
				if v > 0 { // not NaN
					most = max(most, v)
					sum[i] += v
				}
				if p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal" {
					l.values[i] = sum[i]
					p.most = max(p.most, sum[i])
				}
			}
			p.lines = append(p.lines, l)
		}
		p.most = max(p.most, most)
		assert.Positive(t, most, "%s shows nothing of %s", p.Title, target.Expr)
	}
}

// values are those of a series at each step.
func values(s promql.Series) []float64 {
	all := make([]float64, steps)
	for i := range all {
		all[i] = math.NaN()
	}
	for _, f := range s.Floats {
		all[time.UnixMilli(f.T).Sub(begin)/every] = f.F
	}
	return all
}

// In CSS pixels. Rows are lower than Grafana's, so that a reader sees all at once.
const (
	boardWidth, top, gap, rowHeight = 1180, 48, 8, 22
	left, right, above, below       = 64, 12, 34, 24 // of a panel, beside its plot
)

func (d *board) height() int {
	lowest := 0
	for _, p := range d.Panels {
		lowest = max(lowest, p.GridPos.Y+p.GridPos.H)
	}
	return top + lowest*(rowHeight+gap)
}

func (d *board) draw() string {
	var b strings.Builder
	fmt.Fprintf(&b, boardHead, html.EscapeString(d.Title), begin.Format("15:04"), end.Format("15:04"))
	for _, p := range d.Panels {
		column := float64(boardWidth-gap) / 24
		width := float64(p.GridPos.W)*column - gap
		height := float64(p.GridPos.H*(rowHeight+gap) - gap)
		fmt.Fprintf(&b, `<section style="left:%.1fpx;top:%dpx;width:%.1fpx;height:%.1fpx"><h2>%s</h2>`,
			gap+float64(p.GridPos.X)*column, top+p.GridPos.Y*(rowHeight+gap), width, height,
			html.EscapeString(p.Title))
		legend := 22.0
		if len(p.lines) > 4 { // in two rows
			legend += 16
		}
		p.plot(&b, width, height-legend)
		b.WriteString("<p>")
		for i, l := range p.lines {
			fmt.Fprintf(&b, `<span><i style="background:%s"></i>%s</span> `, colour(i),
				html.EscapeString(l.name))
		}
		b.WriteString("</p></section>")
	}
	return b.String()
}

// plot draws the axes and lines of a panel.
func (p *panel) plot(b *strings.Builder, width, height float64) {
	unit := p.FieldConfig.Defaults.Unit
	step := tick(p.most, unit)
	highest := math.Ceil(p.most/step) * step
	x := func(i int) float64 { return left + (width-left-right)*float64(i)/float64(steps-1) }
	y := func(v float64) float64 { return height - below - (height-above-below)*v/highest }
	fmt.Fprintf(b, `<svg width="%.1f" height="%.1f">`, width, height)
	for v := 0.0; v <= highest+step/2; v += step {
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fH%.1f"/><text x="%d" y="%.1f">%s</text>`,
			left, y(v), width-right, left-8, y(v)+4, worded(v, step, unit))
	}
	for minute := 0; minute <= 60; minute += map[bool]int{true: 20, false: 10}[width < 300] {
		at := x(minute * int(time.Minute/every))
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %dV%.1f"/>`, at, above, height-below)
		if minute < 60 {
			fmt.Fprintf(b, `<text class="time" x="%.1f" y="%.1f">%s</text>`, at, height-below+17,
				begin.Add(time.Duration(minute)*time.Minute).Format("15:04"))
		}
	}
	for i, l := range p.lines {
		var edge, base string
		pen := "M"
		for j, v := range l.values {
			if math.IsNaN(v) {
				pen = "M"
				continue
			}
			edge += fmt.Sprintf("%s%.1f %.1f", pen, x(j), y(v))
			base = fmt.Sprintf("L%.1f %.1f", x(j), y(l.low[j])) + base
			pen = "L"
		}
		if fill := p.FieldConfig.Defaults.Custom.FillOpacity; fill > 0 {
			fmt.Fprintf(b, `<path fill="%s" fill-opacity="%d%%" d="%s%sZ"/>`, colour(i), fill, edge, base)
		}
		fmt.Fprintf(b, `<path class="line" stroke="%s" d="%s"/>`, colour(i), edge)
	}
	b.WriteString("</svg>")
}

// colour is one of Grafana's classic palette.
func colour(i int) string {
	all := strings.Fields("#73bf69 #f2cc0c #8ab8ff #ff780a #f2495c #5794f2 #b877d9 #8f3bb8")
	return all[i%len(all)]
}

// tick is the distance of the lines of a grid: about four of them, at round numbers.
func tick(highest float64, unit string) float64 {
	if unit == "s" && highest > 60 {
		return 60 * tick(highest/60, "")
	}
	power := math.Pow(10, math.Floor(math.Log10(highest/4)))
	for _, factor := range []float64{1, 2, 2.5, 5} {
		if highest/(factor*power) <= 4.5 {
			return factor * power
		}
	}
	return 10 * power
}

// worded is a value as Grafana words it.
func worded(v, step float64, unit string) string {
	switch {
	case unit == "ops":
		return fmt.Sprintf("%.3g ops/s", v)
	case unit == "percentunit":
		return fmt.Sprintf("%.3g%%", 100*v)
	case unit == "s" && v == 0:
		return "0 s"
	case unit == "s" && step >= 30:
		return fmt.Sprintf("%.3g mins", v/60)
	case unit == "s" && step < 0.5:
		return fmt.Sprintf("%.3g ms", 1000*v)
	case unit == "s":
		return fmt.Sprintf("%.3g s", v)
	}
	return fmt.Sprintf("%.3g", v)
}

const boardHead = `<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #111217; color: #ccccdc; font: 12px Inter, "DejaVu Sans", sans-serif }
header { height: 48px; padding: 0 16px; display: flex; align-items: center; gap: 8px }
header b { font-size: 16px; margin-right: auto }
header span { border: 1px solid #2c2f36; border-radius: 2px; padding: 5px 9px; background: #181b1f }
header em { color: #6e9fff; font-style: normal; margin-right: 8px }
section { position: absolute; box-sizing: border-box; background: #181b1f; border: 1px solid #25272e;
  border-radius: 3px }
h2 { position: absolute; margin: 8px 12px; font-size: 13px; font-weight: 600 }
svg { position: absolute; inset: 0 }
p { position: absolute; bottom: 0; left: 12px; right: 4px; margin: 6px 0; font-size: 11px;
  line-height: 16px }
p span { white-space: nowrap; margin-right: 9px }
i { display: inline-block; width: 14px; height: 4px; border-radius: 2px; margin: 0 5px 2px 0 }
.grid { stroke: #25282f; fill: none }
.line { fill: none; stroke-width: 1.3; stroke-linejoin: round }
text { fill: #9a9bab; font-size: 10.5px; text-anchor: end }
.time { text-anchor: middle }
</style><header><b>%s</b><span><em>Data source</em>prometheus</span><span><em>Job</em>All</span>
<span><em>Operation</em>All</span><span>%s to %s</span></header>`
