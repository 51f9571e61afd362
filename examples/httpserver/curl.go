package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

// request is one to be sent, and to be printed as a command that does the same.
type request struct {
	method string
	url    string
	shown  string // the URL as a shell needs it, if that is another
	body   string
}

// curl is the command.
func (q request) curl() string {
	url := q.url
	if q.shown != "" {
		url = q.shown
	}
	switch {
	case q.body != "":
		return fmt.Sprintf("curl -i %s -d '%s'", url, q.body)
	case q.method != http.MethodGet:
		return fmt.Sprintf("curl -i %s -X %s", url, q.method)
	default:
		return "curl -i " + url
	}
}

// response is what came.
type response struct {
	*http.Response

	body []byte
	took time.Duration
	err  error
}

// send sends a request.
func (p *play) send(ctx context.Context, q request) (r response) {
	begun := time.Now()
	defer func() { r.took = time.Since(begun) }()
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, strings.NewReader(q.body))
	if err != nil {
		return response{err: err}
	}
	res, err := p.client.Do(req)
	if err != nil {
		return response{err: err}
	}
	defer res.Body.Close() //nolint:errcheck // it has been read to its end, or has failed
	body, err := io.ReadAll(res.Body)
	return response{Response: res, body: body, err: err}
}

// show sends a request, and prints it and what came.
func (p *play) show(ctx context.Context, q request) response {
	p.Command("", q.curl())
	r := p.send(ctx, q)
	p.print("", r)
	return r
}

// print prints what came: the status, the headers that matter here, and the body.
func (p *play) print(mark string, r response) {
	if r.err != nil {
		p.Answer(mark, r.err.Error(), r.took)
		return
	}
	var rest []string
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := r.Header.Get(name); value != "" {
			rest = append(rest, name+": "+value)
		}
	}
	p.Answer(mark, r.Proto+" "+r.Status, r.took, append(rest, r.lines()...)...)
}

// lines are those of the body, a problem with a line for each field so that it can be read.
func (r response) lines() []string {
	text := bytes.TrimSpace(r.body)
	if len(text) > 80 && json.Valid(text) {
		var b bytes.Buffer
		if json.Indent(&b, text, "", "  ") == nil {
			text = b.Bytes()
		}
	}
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// is tells whether an answer has a status and, if typ is not "", is a
// problem of that type that asks for patience if again is set.
func (r response) is(status int, typ string, again bool) bool {
	if r.err != nil || r.StatusCode != status {
		return false
	}
	if typ == "" {
		return true
	}
	var problem struct{ Type string }
	return json.Unmarshal(r.body, &problem) == nil && problem.Type == typ &&
		r.Header.Get("Content-Type") == "application/problem+json" &&
		again == (r.Header.Get("Retry-After") != "")
}

// balance is what is left on the account by an answer.
func (r response) balance() int {
	var receipt struct{ Balance int }
	if json.Unmarshal(r.body, &receipt) != nil {
		return -1 // nobody's
	}
	return receipt.Balance
}

// brief is an answer in a few words.
func (r response) brief() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d after %s", r.StatusCode, stage.Span(r.took))
}
