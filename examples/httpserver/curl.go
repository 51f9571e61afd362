package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
)

// request is one to be sent, and to be printed as a command that does the same.
type request struct {
	method, url string
	shown       string // the URL as a shell needs it, if that is another
	body        string
}

// curl is the command.
func (q request) curl() string {
	url := q.url
	if q.shown != "" {
		url = q.shown
	}
	if q.body == "" {
		return fmt.Sprintf("curl -i %s -X %s", url, q.method)
	}
	return fmt.Sprintf("curl -i %s -d '%s'", url, q.body)
}

func (q request) call(client *http.Client) twoservers.Call {
	return twoservers.Call{
		Command: q.curl(), Send: func(ctx context.Context) twoservers.Reply {
			r, err := q.send(ctx, client)
			if err != nil {
				return twoservers.Reply{Says: err.Error(), Head: err.Error()}
			}
			return r
		},
	}
}

// send sends a request. What is printed of the answer is the status, the headers that matter here,
// and the body: a problem with a line for each field, so that it can be read.
func (q request) send(ctx context.Context, client *http.Client) (r twoservers.Reply, err error) {
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, strings.NewReader(q.body))
	if err != nil {
		return r, err
	}
	res, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close() //nolint:errcheck // it has been read to its end, or has failed
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return r, err
	}
	r.Says, r.Head = strconv.Itoa(res.StatusCode), res.Proto+" "+res.Status
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := res.Header.Get(name); value != "" {
			r.Rest = append(r.Rest, name+": "+value)
		}
	}
	var answer struct {
		Type    string
		Balance int
	}
	_ = json.Unmarshal(body, &answer) // it may be text
	r.Balance = answer.Balance
	body = bytes.TrimSpace(body)
	if res.Header.Get("Content-Type") == "application/problem+json" {
		_, typ, _ := strings.Cut(answer.Type, "#")
		r.Says += " " + typ
		if res.Header.Get("Retry-After") != "" {
			r.Says += " +Retry-After"
		}
		var b bytes.Buffer
		if json.Indent(&b, body, "", "  ") == nil {
			body = b.Bytes()
		}
	}
	r.Rest = append(r.Rest, strings.Split(string(body), "\n")...)
	return r, nil
}
