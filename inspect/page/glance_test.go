package page_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// firstRow is the text of the list's first row, a line for each part.
func firstRow(t *testing.T, text string) []string {
	t.Helper()
	row := regexp.MustCompile(`(?s)<dl class="glance".*?</dl>`).FindString(text)
	require.NotEmpty(t, row)
	var parts []string
	for part := range strings.SplitSeq(row, "</div>") {
		part = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(part, " ")
		if part = strings.Join(strings.Fields(part), " "); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// 9,500 tasks behind one key are the first thing that one sees.
func TestFirstRowSaysWhatIsBad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{
			held("account:big", 1, 4*time.Minute), held("account:2", 2, time.Minute),
			held("leader", 3, 31*time.Hour),
			{Name: "foreign", Foreign: true},
			{Name: "between", Tasks: 4}, // two owners
		}}
		f.locks[0].Tasks, f.locks[0].Waiting, f.locks[0].Slots[0].Callers = 9500, 1, 17
		f.locks[1].Waiting = 3
		p := newPage(t, f, page.Config{})
		text := webtest.Do(p, get("/")).Text
		assert.Equal(t, []string{
			"Held 3",
			"Waiting 9,525 4 processes, 9,504 tasks, 17 callers in the holder’s process",
			"Most wait for account:big 9,518 waiting",
			"Held for the longest time leader 1 d 07 h",
			"Lost or broken 0 in the 0 s that this page has looked",
			"Store answers read in 0 ms",
		}, firstRow(t, text))
		assert.Contains(t, text, `<a class="name" href="lock?name=account%3Abig">`)
		assert.Contains(t, text, `<td class="waiting">9,518</td>`)
		_, behind, _ := strings.Cut(text, "<bdi>account:2</bdi>")
		assert.Contains(t, behind, "<bdi>between</bdi>", "it is not held for the longest time")

		f.change(func() {
			f.locks = nil
			f.err = fmt.Errorf("%w: %w", renewer.ErrUnavailable, errors.New("no route"))
		})
		<-time.After(2 * time.Second)
		row := firstRow(t, webtest.Do(p, get("/")).Text)
		assert.Equal(t, "Held –", row[0], "what is not known is not zero")
		assert.Equal(t, "Store no data", row[5])
	})
}

// Callers of the holder's own process stand in no line of processes: the page
// once said that nobody waited while 19 did.
func TestWhoWaitsIsNotNobody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		places, tasks, callers int
		says                   string
	}{
		{0, 0, 0, "0 held 0 waiting"},
		{0, 0, 19, "1 held 19 waiting: 19 callers in the holder’s process"},
		{0, 1, 0, "1 held 1 waiting: 1 task"},
		{2, 9547, 1, "1 held 9,550 waiting: 2 processes, 9,547 tasks, 1 caller in the holder’s process"},
	} {
		l := store.Lock{Name: "a", Waiting: c.places, Tasks: c.tasks}
		if c.says[0] != '0' {
			l.Slots = held("a", 7, time.Minute).Slots
			l.Slots[0].Callers = c.callers
		}
		l.Places = make([]store.Place, c.places)
		p := newPage(t, &fake{locks: []store.Lock{l}}, page.Config{})
		text := webtest.Do(p, get("/lock?name=a")).Text
		summary := regexp.MustCompile(`id="summary">(.*)</p>`).FindStringSubmatch(text)
		assert.Equal(t, c.says, regexp.MustCompile(`<[^>]*>`).ReplaceAllString(summary[1], ""))
		nobody := !strings.Contains(text, `id="nobody" class="empty small" hidden`)
		assert.Equal(t, c.places+c.tasks+c.callers == 0, nobody)
	}
}
