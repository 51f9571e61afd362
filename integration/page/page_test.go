package page_test

import (
	"errors"
	"fmt"
	"slices"
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
		"store away": testStoreAway, "sizes and colours": testLooks, "dashboard": testDashboard,
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
		assert.Zero(t, p.count("#rows img, #rows script"))
		rows := p.each("#rows td.name bdi", "e.textContent")
		assert.Len(t, rows, len(hostile))
		heights := p.each("#rows tr", "String(e.offsetHeight)")
		for _, h := range heights {
			assert.Equal(t, heights[0], h, "no name makes its row higher")
		}
		p.keep(fmt.Sprint("hostile-", l.width, l.noScript))
		links := p.each("#rows td.name a", "e.href")
		seen := make(map[string]bool)
		for i, link := range links {
			p.visit(link)
			if !l.noScript {
				p.wait(`document.body.dataset.stream === "live"`)
			}
			p.fits()
			shown := p.text("h1 bdi")
			assert.Equal(t, rows[i], shown)
			assert.False(t, seen[shown], "two names look the same: %s", shown)
			seen[shown] = true
			assert.Equal(t, strings.TrimSpace(shown), eval[string](p, "document.title"))
			assert.Equal(t, 1, p.count("#slots tbody tr"),
				"the link of %q leads to another lock", hostile[len(hostile)-1-i])
			assert.Zero(t, p.count("main img, main script"))
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
	assert.Equal(t, "10,000", p.text("#glance .holds b"))
	assert.Less(t, p.count("#rows tr"), 100, "rows that can't be seen are in no table")

	// The end of the list is there, and a filter finds what is far from where the reader is.
	eval[any](p, `scrollTo(0, document.documentElement.scrollHeight)`)
	p.wait(`[...document.querySelectorAll("#rows bdi")].some(e => e.textContent === "order:000000")`)
	assert.Less(t, p.count("#rows tr"), 100)
	begin = time.Now()
	eval[any](p, `document.getElementById("filter").value = "order:004711 web-11"`)
	eval[any](p, `document.getElementById("filter").dispatchEvent(new Event("input"))`)
	assert.Equal(t, 1, p.count("#rows tr"))
	t.Logf("filtered after %v", time.Since(begin).Round(time.Millisecond))
	assert.Equal(t, "1 of 10,000", p.text("#found"))

	// All leases are renewed, time and again.
	for range 3 {
		f.renew(15 * time.Second)
		p.wait(`parseInt(document.querySelector("#rows .left").textContent) >= 13`)
		<-time.After(1100 * time.Millisecond)
	}
	assert.Less(t, eval[float64](p, `performance.memory.usedJSHeapSize`), 50e6)
}

// What changes in the store is seen without a reload, and rows keep their places and the focus.
func testLive(t *testing.T, b *browser) {
	f, url := serve(t, office()...)
	p := b.open(t, desktop)
	p.visitLive(url)
	eval[any](p, `fetch("./").then(r => r.text()).then(text => {
		const page = new DOMParser().parseFromString(text, "text/html");
		const served = document.createElement("div");
		served.id = "served";
		for (const id of ["glance", "rows", "lost"]) served.append(page.getElementById(id));
		document.body.append(served);
	})`)
	words := `e.textContent.replace(/\d+ (s|ms)\b/g, "").replace(/\s+/g, " ")`
	for _, part := range []string{"#glance > div", "#rows tr", "#lost tbody tr"} {
		served := p.each("#served "+part, words)
		assert.NotEmpty(t, served)
		assert.Equal(t, served, p.each("header "+part+", main "+part, words),
			"the script words it as the server does")
	}
	eval[any](p, `document.getElementById("served").remove()`)
	assert.Equal(t, "1", p.text("#glance .lost b"))
	assert.Equal(t, "account:7", strings.TrimSpace(p.text("#glance .worst .name")))

	lock := b.open(t, still)
	lock.visit(url + "lock?name=account:7")
	served := lock.text("#summary")
	lock = b.open(t, desktop)
	lock.visitLive(url + "lock?name=account:7")
	assert.Equal(t, served, strings.TrimSpace(lock.text("#summary")))
	assert.Contains(t, served, "14 processes, 640 tasks, 3 callers in the holder’s process")
	p = b.open(t, desktop)
	p.visitLive(url)

	eval[any](p, `[...document.querySelectorAll("#rows a")].find(e => e.textContent === "order:57").focus()`)
	locks := slices.Delete(office(), 3, 5)
	locks = append(locks, held("brand:new", "web-9", 1, "x", 2*time.Hour, time.Minute, 0))
	f.set(locks, nil)
	p.wait(`document.getElementById("rows").textContent.includes("brand:new")`)
	assert.NotContains(t, p.text("#rows"), "account:7")
	assert.Equal(t, "order:57", p.text(":focus"))

	f.set(nil, nil)
	p.wait(`!document.getElementById("empty").hidden`)
	assert.Contains(t, p.text("#empty"), "No lock is held")

	// The hash of a log's line leads to a lock that is free by now.
	p.press("/")
	for _, key := range renewer.HashName("order:57", nil) {
		p.press(string(key))
	}
	p.wait(`!document.querySelector("#look .by-hash").hidden`)
	p.press("Enter")
	p.wait(`document.title === "order:57" && document.body.dataset.stream === "live"`)
	assert.Equal(t, 2, p.count("#former tbody tr"), "both that the fake has had")
	assert.Equal(t, "ended", p.text("#former td.how"))
	assert.Contains(t, p.text(".hash"), renewer.HashName("order:57", nil))
	p.visitLive(url)
	p.press("/")
	for _, key := range renewer.HashName("upload:tenant-12", nil)[:6] {
		p.press(string(key))
	}
	p.wait(`document.querySelectorAll("#lost tbody tr").length === 2`)
	assert.Contains(t, p.text("#lost tbody"), "broken by alice: hangs since the deploy")
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
	assert.Equal(t, "order:42", p.text(":focus"))
	p.press("ArrowDown")
	assert.Equal(t, "order:57", p.text(":focus"))
	p.press("ArrowUp")
	p.press("ArrowUp")
	assert.Equal(t, "filter", eval[string](p, `document.activeElement.id`))
	p.press("Escape")
	p.wait(`document.querySelectorAll("#rows tr").length === 14`)

	eval[any](p, `document.querySelector("th.name button").focus()`)
	p.press("Enter")
	assert.Equal(t, "ascending", eval[string](p, `document.querySelector("th.name").ariaSort`))
	assert.Equal(t, "account:7", p.text("#rows bdi"))
	p.press("Enter")
	assert.Equal(t, "user:alice@example.com", p.text("#rows bdi"))
	p.visitLive(eval[string](p, "location.href"))
	assert.Equal(t, "user:alice@example.com", p.text("#rows bdi"),
		"the address remembers")
	eval[any](p, `document.querySelector("#rows a").focus()`)
	p.press("Enter")
	p.wait(`document.title === "user:alice@example.com"`)
}

func testBreaking(t *testing.T, b *browser) {
	f, url := serve(t, office()...)
	// To a host that it does not trust a browser sends no Sec-Fetch-Site.
	url = strings.Replace(url, "127.0.0.1", "locks.test", 1)
	p := b.open(t, desktop)
	p.visitLive(url + "lock?name=account:7")
	eval[any](p, `document.querySelector(".act a").click()`)
	p.wait(`document.title.startsWith("Break") && document.readyState === "complete"`)
	fence := p.text("dd code")
	assert.Equal(t, "why", eval[string](p, `document.activeElement.name`))
	for _, key := range "hangs" {
		p.press(string(key))
	}
	p.press("Enter")
	p.wait(`document.title === "account:7" && document.body.dataset.stream === "live"`)
	assert.Contains(t, p.text(".notice.calm"), fence)
	assert.Equal(t, "broken by alice: hangs", p.text(".why"))
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
	assert.Equal(t, 14, p.count("#rows tr"))
	assert.Contains(t, p.text("#state"), "Reload")
	p.click("th.name button")
	p.wait(`location.search.includes("sort=name") && document.readyState === "complete"`)
	assert.Equal(t, "account:7", p.text("#rows bdi"))
	p.visit(url + "?q=charge")
	p.click("#filter")
	p.press("Enter")
	p.wait(`location.search === "?q=charge&sort=-held" && document.readyState === "complete"`)
	assert.Equal(t, "order:42", p.text("#rows bdi"))
	f.set(nil, nil)
	<-time.After(1100 * time.Millisecond)
	p.visit(url)
	assert.Contains(t, p.text("#empty"), "No lock is held")
}

func testStoreAway(t *testing.T, b *browser) {
	f, url := serve(t, office()...)
	p := b.open(t, desktop)
	p.visitLive(url)
	f.set(nil, errors.Join(renewer.ErrUnavailable, errors.New("dial tcp 10.0.0.7:6379: i/o timeout")))
	p.wait(`!document.getElementById("notice").hidden`)
	assert.Contains(t, p.text("#notice"), "The store does not answer.")
	assert.Equal(t, 14, p.count("#rows tr"), "what was known stays, and is paler")
	p.keep("away")
	f.set(office(), nil)
	p.wait(`document.getElementById("notice").hidden && document.body.dataset.stream === "live"`)
	f.close()
	p.wait(`document.body.dataset.stream === "lost"`)
	assert.Contains(t, p.text("#state"), "Connection lost")
}
