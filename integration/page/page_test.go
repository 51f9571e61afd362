package page_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var (
	desktop = look{width: 1180, height: 752}
	dark    = look{width: 1180, height: 752, dark: true}
	phone   = look{width: 390, height: 844, scale: 2, phone: true}
	still   = look{width: 1180, height: 752, noScript: true}
)

// visitLive loads a page and waits until its stream has come.
func (p *tab) visitLive(url string) {
	p.t.Helper()
	p.visit(url)
	p.wait(`document.body.dataset.stream === "live"`)
}

// fits requires that nothing is wider than the window.
func (p *tab) fits() {
	p.t.Helper()
	assert.LessOrEqual(p.t, eval[float64](p, "document.documentElement.scrollWidth"),
		eval[float64](p, "innerWidth"))
}

//nolint:paralleltest // one after the other: a tab behind another one sleeps
func TestPage(t *testing.T) {
	b := start(t)
	for name, test := range map[string]func(*testing.T, *browser){
		"hostile names": testHostileNames, "10,000 locks": testManyLocks, "live": testLive,
		"keys": testKeys, "breaking": testBreaking, "without script": testWithoutScript,
		"store away": testStoreAway, "sizes and colours": testLooks,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// Names are text, whatever is in them, and lead to their locks.
func testHostileNames(t *testing.T, b *browser) {
	var locks []store.Lock
	for i, name := range hostile {
		l := held(name, name, 1, name, time.Duration(i)*time.Minute, time.Hour, 1)
		l.Slots[0].Broken = &store.Broken{By: name, Why: name}
		l.Places[0].Holder = l.Slots[0].Holder
		l.Places[0].Version = name
		locks = append(locks, l)
	}
	_, url := serve(t, locks...)
	for _, l := range []look{desktop, phone, still} {
		p := b.open(t, l)
		p.visit(url)
		if !l.noScript {
			p.wait(`document.body.dataset.stream === "live"`)
		}
		p.fits()
		assert.Equal(t, "Locks", eval[string](p, "document.title"))
		assert.Zero(t, eval[int](p, `document.querySelectorAll("#rows img, #rows script").length`))
		rows := eval[[]string](p, `[...document.querySelectorAll("#rows td.name bdi")].map(e => e.textContent)`)
		assert.Len(t, rows, len(hostile))
		heights := eval[[]int](p, `[...document.querySelectorAll("#rows tr")].map(e => e.offsetHeight)`)
		for _, h := range heights {
			assert.Equal(t, heights[0], h, "no name makes its row higher")
		}
		links := eval[[]string](p, `[...document.querySelectorAll("#rows td.name a")].map(e => e.href)`)
		seen := make(map[string]bool)
		for i, link := range links {
			p.visit(link)
			if !l.noScript {
				p.wait(`document.body.dataset.stream === "live"`)
			}
			p.fits()
			shown := eval[string](p, `document.querySelector("h1 bdi").textContent`)
			assert.Equal(t, rows[i], shown)
			assert.False(t, seen[shown], "two names look the same: %s", shown)
			seen[shown] = true
			assert.Equal(t, strings.TrimSpace(shown), eval[string](p, "document.title"))
			assert.Equal(t, 1, eval[int](p, `document.querySelectorAll("#slots tbody tr").length`),
				"the link of %q leads to another lock", hostile[len(hostile)-1-i])
			assert.Zero(t, eval[int](p, `document.querySelectorAll("main img, main script").length`))
		}
	}
}

// manyLocks are as many as a page lists.
func manyLocks() []store.Lock {
	locks := make([]store.Lock, 10_000)
	for i := range locks {
		locks[i] = held(fmt.Sprintf("order:%06d", i), fmt.Sprint("web-", i%50), 1000+i%700,
			"charge", time.Duration(i)*time.Second, 15*time.Second, i%4)
	}
	return locks
}

func testManyLocks(t *testing.T, b *browser) {
	f, url := serve(t, manyLocks()...)
	p := b.open(t, desktop)
	p.visit(url + "page.css") // so that a connection is there
	begin := time.Now()
	p.visitLive(url)
	eval[bool](p, "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true))))")
	took := time.Since(begin)
	t.Logf("painted and live after %v", took.Round(time.Millisecond))
	assert.LessOrEqual(t, took, time.Second)
	assert.Contains(t, eval[string](p, `document.getElementById("summary").textContent`), "10,000 held")
	count := func() int { return eval[int](p, `document.querySelectorAll("#rows tr").length`) }
	assert.Less(t, count(), 100, "rows that can't be seen are in no table")

	// The end of the list is there, and a filter finds what is far from where the reader is.
	eval[any](p, `scrollTo(0, document.documentElement.scrollHeight)`)
	p.wait(`[...document.querySelectorAll("#rows bdi")].some(e => e.textContent === "order:000000")`)
	assert.Less(t, count(), 100)
	begin = time.Now()
	eval[any](p, `(f => { f.value = "order:004711 web-11"; f.dispatchEvent(new Event("input")) })(document.getElementById("filter"))`)
	assert.Equal(t, 1, count())
	t.Logf("filtered after %v", time.Since(begin).Round(time.Millisecond))
	assert.Equal(t, "1 of 10,000", eval[string](p, `document.getElementById("found").textContent`))

	// All leases are renewed: what is sent and done for that is little.
	size := eval[float64](p, `performance.memory.usedJSHeapSize`)
	for range 3 {
		f.renew(15 * time.Second)
		p.wait(`(l => l && parseInt(l) >= 13)(document.querySelector("#rows .left").textContent)`)
		<-time.After(1100 * time.Millisecond)
	}
	eval[any](p, `globalThis.gc?.()`)
	t.Logf("heap %.1f MB, before %.1f MB", eval[float64](p, `performance.memory.usedJSHeapSize`)/1e6, size/1e6)
}

// What changes in the store is seen without a reload, and rows keep their places and the focus.
func testLive(t *testing.T, b *browser) {
	f, url := serve(t, office()...)
	p := b.open(t, desktop)
	p.visitLive(url)
	still := b.open(t, desktop)
	still.visitLive(url)
	static := eval[string](still, `fetch("./").then(r => r.text()).then(text =>
		[...new DOMParser().parseFromString(text, "text/html").querySelectorAll("#rows tr")]
			.map(e => e.textContent.replace(/\d+ s/g, "").replace(/\s+/g, " ")).join("\n"))`)
	live := eval[string](still, `[...document.querySelectorAll("#rows tr")]
			.map(e => e.textContent.replace(/\d+ s/g, "").replace(/\s+/g, " ")).join("\n")`)
	assert.Equal(t, static, live, "the script words rows as the server does")
	still.do("Page.close", nil, nil)

	p.do("Page.bringToFront", nil, nil)
	p.wait(`document.body.dataset.stream === "live"`)
	eval[any](p, `[...document.querySelectorAll("#rows a")].find(e => e.textContent === "order:57").focus()`)
	locks := office()
	f.set(append(locks[:3:3], append(locks[5:], held("brand:new", "web-9", 1, "x", 2*time.Hour, time.Minute, 0))...), nil)
	p.wait(`[...document.querySelectorAll("#rows a")].some(e => e.textContent === "brand:new")`)
	assert.False(t, eval[bool](p, `[...document.querySelectorAll("#rows a")].some(e => e.textContent === "account:7")`))
	assert.Equal(t, "order:57", eval[string](p, `document.activeElement.textContent`))

	f.set(nil, nil)
	p.wait(`!document.getElementById("empty").hidden`)
	assert.Contains(t, eval[string](p, `document.getElementById("empty").textContent`), "No lock is held")
}

func testKeys(t *testing.T, b *browser) {
	_, url := serve(t, office()...)
	p := b.open(t, desktop)
	p.visitLive(url)
	p.press("/")
	for _, key := range "charge" {
		p.press(string(key))
	}
	p.wait(`document.querySelectorAll("#rows tr").length === 3`)
	p.press("ArrowDown")
	assert.Equal(t, "order:42", eval[string](p, `document.activeElement.textContent`))
	p.press("ArrowDown")
	assert.Equal(t, "order:57", eval[string](p, `document.activeElement.textContent`))
	p.press("ArrowUp")
	p.press("ArrowUp")
	assert.Equal(t, "filter", eval[string](p, `document.activeElement.id`))
	p.press("Escape")
	p.wait(`document.querySelectorAll("#rows tr").length === 14`)

	eval[any](p, `document.querySelector("th.name button").focus()`)
	p.press("Enter")
	assert.Equal(t, "ascending", eval[string](p, `document.querySelector("th.name").ariaSort`))
	assert.Equal(t, "account:7", eval[string](p, `document.querySelector("#rows bdi").textContent`))
	p.press("Enter")
	assert.Equal(t, "user:alice@example.com", eval[string](p, `document.querySelector("#rows bdi").textContent`))
	p.visitLive(eval[string](p, "location.href"))
	assert.Equal(t, "user:alice@example.com", eval[string](p, `document.querySelector("#rows bdi").textContent`),
		"the address remembers")
	eval[any](p, `document.querySelector("#rows a").focus()`)
	p.press("Enter")
	p.wait(`document.title === "user:alice@example.com"`)
}

func testBreaking(t *testing.T, b *browser) {
	f, url := serve(t, office()...)
	p := b.open(t, desktop)
	p.visitLive(url + "lock?name=account:7")
	eval[any](p, `document.querySelector(".act a").click()`)
	p.wait(`document.title.startsWith("Break") && document.readyState === "complete"`)
	fence := eval[string](p, `document.querySelector("dd code").textContent`)
	assert.Equal(t, "why", eval[string](p, `document.activeElement.name`))
	for _, key := range "hangs" {
		p.press(string(key))
	}
	p.press("Enter")
	p.wait(`document.title === "account:7" && document.body.dataset.stream === "live"`)
	assert.Contains(t, eval[string](p, `document.querySelector(".notice.calm").textContent`), fence)
	assert.Equal(t, "broken by alice: hangs", eval[string](p, `document.querySelector(".why").textContent`))
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.broke, 1)
	assert.False(t, f.broke[0].Force)
	assert.Equal(t, fence, fmt.Sprint(f.broke[0].Fence))
}

func testWithoutScript(t *testing.T, b *browser) {
	f, url := serve(t, office()...)
	p := b.open(t, still)
	p.visit(url)
	assert.Equal(t, 14, eval[int](p, `document.querySelectorAll("#rows tr").length`))
	assert.Contains(t, eval[string](p, `document.getElementById("state").innerText`), "Reload")
	p.do("Input.dispatchMouseEvent", args{"type": "mousePressed", "button": "left", "clickCount": 1, "x": 50, "y": 170}, nil)
	p.do("Input.dispatchMouseEvent", args{"type": "mouseReleased", "button": "left", "clickCount": 1, "x": 50, "y": 170}, nil)
	p.wait(`location.search.includes("sort=name") && document.querySelector("#rows bdi")?.textContent === "account:7"`)
	f.set(nil, nil)
	<-time.After(1100 * time.Millisecond)
	p.visit(url)
	assert.Contains(t, eval[string](p, `document.getElementById("empty").textContent`), "No lock is held")
}

func testStoreAway(t *testing.T, b *browser) {
	f, url := serve(t, office()...)
	p := b.open(t, desktop)
	p.visitLive(url)
	f.set(nil, errors.Join(renewer.ErrUnavailable, errors.New("dial tcp 10.0.0.7:6379: i/o timeout")))
	p.wait(`!document.getElementById("notice").hidden`)
	assert.Contains(t, eval[string](p, `document.getElementById("notice").innerText`), "The store does not answer.")
	assert.Equal(t, 14, eval[int](p, `document.querySelectorAll("#rows tr").length`), "what was known stays, and is paler")
	p.keep("away")
	f.set(office(), nil)
	p.wait(`document.getElementById("notice").hidden && document.body.dataset.stream === "live"`)
	f.close()
	p.wait(`document.body.dataset.stream === "lost"`)
	assert.Contains(t, eval[string](p, `document.getElementById("state").innerText`), "Connection lost")
}
