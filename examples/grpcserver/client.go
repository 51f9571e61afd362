package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// patience is the retry policy of a client that comes back when it
// was refused. The servers' trailer says when.
const patience = `{"methodConfig": [{"name": [{"service": "bank.Bank"}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "1s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["ABORTED", "UNAVAILABLE"]}}]}`

// dial connects a client.
func (p *play) dial(addr string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(addr,
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, err
	}
	p.AtEnd(func(context.Context) error { return conn.Close() })
	return conn, nil
}

// attempts counts those that a client makes.
type attempts struct{ made atomic.Int64 }

var _ stats.Handler = (*attempts)(nil)

func (*attempts) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (a *attempts) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.Begin); ok {
		a.made.Add(1)
	}
}

func (*attempts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*attempts) HandleConn(context.Context, stats.ConnStats)                       {}

// call is one to be made, and to be printed as a command that does the same.
type call struct {
	conn   *grpc.ClientConn
	method string
	in     proto.Message
}

func (c call) grpcurl() string {
	return fmt.Sprintf("grpcurl -plaintext -d '%s' %s %s", asJSON(c.in), c.conn.Target(),
		strings.TrimPrefix(c.method, "/"))
}

// asJSON is a message on a line. protojson's own spaces differ from one build to the next.
func asJSON(m proto.Message) string {
	text, err := protojson.Marshal(m)
	var b bytes.Buffer
	if err != nil || json.Compact(&b, text) != nil {
		return fmt.Sprint(m)
	}
	return b.String()
}

// outcome is what came.
type outcome struct {
	receipt *bank.Receipt
	trailer metadata.MD
	took    time.Duration
	err     error
}

// make makes a call.
func (c call) make(ctx context.Context) (o outcome) {
	o.receipt = new(bank.Receipt)
	begun := time.Now()
	o.err = c.conn.Invoke(ctx, c.method, c.in, o.receipt, grpc.Trailer(&o.trailer))
	o.took = time.Since(begun)
	return o
}

// show makes a call, and prints it and what came.
func (p *play) show(ctx context.Context, c call) outcome {
	p.Command("", c.grpcurl())
	o := c.make(ctx)
	p.print("", o)
	return o
}

// start prints a call and makes it, while others are made.
func (p *play) start(ctx context.Context, mark string, c call) <-chan outcome {
	p.Command(mark, c.grpcurl())
	came := make(chan outcome, 1)
	go func() { came <- c.make(ctx) }()
	return came
}

func (p *play) print(mark string, o outcome) {
	if o.err == nil {
		p.Answer(mark, "OK", o.took, asJSON(o.receipt))
		return
	}
	p.Answer(mark, status.Code(o.err).String()+": "+status.Convert(o.err).Message(), o.took,
		details(o.err, o.trailer)...)
}

// details are those of a status that matter here, and the trailer by which retry policies go.
func details(err error, trailer metadata.MD) (lines []string) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			lines = append(lines, "ErrorInfo: "+d.GetReason()+" ("+d.GetDomain()+")")
		case *errdetails.RetryInfo:
			lines = append(lines, "RetryInfo: "+stage.Span(d.GetRetryDelay().AsDuration()))
		}
	}
	for _, value := range trailer.Get("grpc-retry-pushback-ms") {
		lines = append(lines, "trailer grpc-retry-pushback-ms: "+value)
	}
	return lines
}

// is tells whether a call ended with a code and, if reason is not "",
// with that reason, and a delay to come back after if again is set.
func (o outcome) is(code codes.Code, reason string, again bool) bool {
	if status.Code(o.err) != code {
		return false
	}
	var got string
	var delay time.Duration
	for _, d := range status.Convert(o.err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == grpcmw.Domain {
				got = d.GetReason()
			}
		case *errdetails.RetryInfo:
			delay = d.GetRetryDelay().AsDuration()
		}
	}
	return got == reason && again == (delay > 0)
}

// brief is an outcome in a few words.
func (o outcome) brief() string {
	return fmt.Sprintf("%v after %s", status.Code(o.err), stage.Span(o.took))
}
