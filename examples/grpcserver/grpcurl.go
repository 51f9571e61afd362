package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// call is one to be made, and to be printed as a command that does the same.
func call(conn *grpc.ClientConn, method string, in *bank.TransferRequest) twoservers.Call {
	return twoservers.Call{
		Command: fmt.Sprintf("grpcurl -plaintext -d '%s' %s %s", asJSON(in), conn.Target(),
			strings.TrimPrefix(method, "/")),
		Send: func(ctx context.Context) twoservers.Reply {
			var receipt bank.Receipt
			var trailer metadata.MD
			err := conn.Invoke(ctx, method, in, &receipt, grpc.Trailer(&trailer))
			return reply(&receipt, err, trailer)
		},
	}
}

// reply shows the code, the details of a status that matter here, and the trailer by which retry
// policies go.
func reply(receipt *bank.Receipt, err error, trailer metadata.MD) twoservers.Reply {
	r := twoservers.Reply{Says: status.Code(err).String(), Balance: int(receipt.GetBalance())}
	if err == nil {
		r.Lines = []string{"OK", asJSON(receipt)}
		return r
	}
	r.Lines = []string{r.Says + ": " + status.Convert(err).Message()}
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			r.Says += " " + strings.TrimPrefix(d.GetDomain()+":"+d.GetReason(), grpcmw.Domain+":")
			r.Lines = append(r.Lines, "ErrorInfo: "+d.GetReason()+" ("+d.GetDomain()+")")
		case *errdetails.RetryInfo:
			r.Says += " +RetryInfo"
			r.Lines = append(r.Lines, "RetryInfo: "+demo.Span(d.GetRetryDelay().AsDuration()))
		}
	}
	for _, value := range trailer.Get("grpc-retry-pushback-ms") {
		if value != "-1" { // never
			r.Says += " +pushback"
		}
		r.Lines = append(r.Lines, "trailer grpc-retry-pushback-ms: "+value)
	}
	return r
}

// asJSON is a message on a line, which protojson would write with other spaces in each build.
func asJSON(m any) string {
	text, _ := json.Marshal(m) // of a struct of numbers and texts
	return string(text)
}
