package page_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium that is told what to do by its DevTools protocol, over a pair of
// pipes: JSON, with a zero byte behind each message.
type browser struct {
	out io.Writer

	mu      sync.Mutex
	last    int
	waiting map[int]chan<- message
	ended   error
	faults  []string // scripts that failed, and what the policy has blocked
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// start runs a Chromium until the test ends.
func start(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	require.NoError(t, err, "run `make page`, or `scripts/ensure chromium`")
	read, theirOut, err := os.Pipe()
	require.NoError(t, err)
	theirIn, write, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(program, "--headless", "--remote-debugging-pipe", "--no-sandbox",
		"--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--host-resolver-rules=MAP locks.test 127.0.0.1", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	require.NoError(t, cmd.Start())
	require.NoError(t, errors.Join(theirIn.Close(), theirOut.Close()))
	b := &browser{out: write, waiting: make(map[int]chan<- message)}
	done := make(chan struct{})
	go func() { defer close(done); b.listen(read) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_, _ = b.call(ctx, "", "Browser.close", nil)
		_ = write.Close()
		stop := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		defer stop.Stop()
		_ = cmd.Wait()
		_ = read.Close()
		<-done
	})
	return b
}

func (b *browser) listen(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		data, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ended = fmt.Errorf("chromium has ended: %w", err)
			for _, answer := range b.waiting {
				close(answer)
			}
			clear(b.waiting)
			return
		}
		var m message
		if json.Unmarshal(data[:len(data)-1], &m) == nil {
			b.mu.Lock()
			if answer := b.waiting[m.ID]; answer != nil {
				answer <- m
				delete(b.waiting, m.ID)
			}
			if m.Method == "Runtime.exceptionThrown" || bytes.Contains(data, []byte("Content Security")) {
				b.faults = append(b.faults, string(data))
			}
			b.mu.Unlock()
		}
	}
}

func (b *browser) call(
	ctx context.Context, session, method string, params any,
) (json.RawMessage, error) {
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Params: params}
	data, err := json.Marshal(m)
	if err == nil && b.ended == nil {
		b.waiting[m.ID] = answer
		_, err = b.out.Write(append(data, 0))
	}
	err = errors.Join(err, b.ended)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, b.ended
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// tab is one page of the browser.
type tab struct {
	t       *testing.T
	b       *browser
	session string
}

type args = map[string]any

// look is how the tab is seen.
type look struct {
	width, height int
	scale         float64
	dark, phone   bool
	noScript      bool
}

func (b *browser) open(t *testing.T, l look) *tab {
	t.Helper()
	p := &tab{t: t, b: b}
	var target struct{ TargetID string }
	p.do("Target.createTarget", args{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.do("Target.attachToTarget", args{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	t.Cleanup(func() {
		p.session = ""
		_, _ = b.call(context.WithoutCancel(t.Context()), "", "Target.closeTarget",
			args{"targetId": target.TargetID})
	})
	p.do("Page.enable", nil, nil)
	p.do("Page.bringToFront", nil, nil)
	p.do("Runtime.enable", nil, nil)
	p.do("Log.enable", nil, nil)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Empty(t, b.faults)
	})
	p.do("Emulation.setDeviceMetricsOverride", args{
		"width": l.width, "height": l.height, "mobile": l.phone, "deviceScaleFactor": max(l.scale, 1),
	}, nil)
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	p.do("Emulation.setEmulatedMedia", args{"features": []args{
		{"name": "prefers-color-scheme", "value": scheme},
		{"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
	p.do("Emulation.setScriptExecutionDisabled", args{"value": l.noScript}, nil)
	return p
}

// visit loads an address.
func (p *tab) visit(url string) {
	p.t.Helper()
	var loaded struct{ ErrorText string }
	p.do("Page.navigate", args{"url": url}, &loaded)
	require.Empty(p.t, loaded.ErrorText)
	p.wait(`document.readyState === "complete"`)
}

// do calls a method and reads its result into result, unless that is nil.
func (p *tab) do(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	data, err := p.b.call(ctx, p.session, method, params)
	require.NoError(p.t, err)
	if result != nil {
		require.NoError(p.t, json.Unmarshal(data, result))
	}
}

// eval runs an expression in the page, waits if it is a promise, and reads its value.
func eval[T any](p *tab, script string) T {
	p.t.Helper()
	var answer struct {
		Result           struct{ Value T }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.do("Runtime.evaluate", args{
		"expression": script, "awaitPromise": true, "returnByValue": true,
	}, &answer)
	if e := answer.ExceptionDetails; e != nil {
		require.FailNow(p.t, "the script failed", "%s %s\n%s", e.Text, e.Exception.Description, script)
	}
	return answer.Result.Value
}

// wait waits until an expression is true. While the page is being loaded, it is not.
func (p *tab) wait(script string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 15*time.Second)
	defer cancel()
	for {
		data, err := p.b.call(ctx, p.session, "Runtime.evaluate",
			args{"expression": "!!(" + script + ")", "returnByValue": true})
		if err == nil && bytes.Contains(data, []byte(`"value":true`)) {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			require.FailNow(p.t, "it is never true", "%s\nat last: %s, %v", script, data, err)
		}
	}
}

// text is what is shown in the first element that a selector finds.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q).textContent", selector))
}

func (p *tab) count(selector string) int {
	p.t.Helper()
	return eval[int](p, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// each is an expression's value for each element e that a selector finds.
func (p *tab) each(selector, expression string) []string {
	p.t.Helper()
	return eval[[]string](p, fmt.Sprintf("[...document.querySelectorAll(%q)].map(e => %s)",
		selector, expression))
}

// click presses the mouse's button in the middle of an element.
func (p *tab) click(selector string) {
	p.t.Helper()
	at := eval[struct{ X, Y, Width, Height float64 }](p,
		fmt.Sprintf("document.querySelector(%q).getBoundingClientRect().toJSON()", selector))
	for _, what := range []string{"mousePressed", "mouseReleased"} {
		p.do("Input.dispatchMouseEvent", args{
			"type": what, "button": "left", "clickCount": 1,
			"x": at.X + at.Width/2, "y": at.Y + at.Height/2,
		}, nil)
	}
}

// press presses and releases a key.
func (p *tab) press(key string) {
	p.t.Helper()
	text := ""
	if len(key) == 1 {
		text = key
	} else if key == "Enter" {
		text = "\r"
	}
	codes := map[string]int{"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}
	p.do("Input.dispatchKeyEvent", args{
		"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": codes[key],
	}, nil)
	p.do("Input.dispatchKeyEvent", args{
		"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key],
	}, nil)
}

// picture is what is seen, as PNG.
func (p *tab) picture() []byte {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.do("Page.captureScreenshot", args{"format": "png"}, &shot)
	return shot.Data
}
