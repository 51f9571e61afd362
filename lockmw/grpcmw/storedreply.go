package grpcmw

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// reply is what a handler has returned: one of the two.
type reply struct {
	message any
	err     error
}

// storedReply is a reply as it is stored, in JSON. Older releases' replies must stay readable.
type storedReply struct {
	Message []byte `json:"message,omitempty"` // of the method's own type
	Status  []byte `json:"status,omitempty"`  // google.rpc.Status; none: OK
}

// encodeReply returns what is to be stored, nil if that has more than most bytes for sure, or can't
// be encoded.
func encodeReply(message any, failed error, most int) []byte {
	m, _ := message.(proto.Message)
	if failed != nil {
		m = statusOf(failed).Proto()
	}
	if m == nil || proto.Size(m) > most {
		return nil
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return nil
	}
	stored := storedReply{Message: data}
	if failed != nil {
		stored = storedReply{Status: data}
	}
	text, _ := json.Marshal(stored) // bytes: it does not fail
	return text
}

// decodeReply reads a stored reply, whose message is of a kind. Another program may have stored it.
func decodeReply(text []byte, kind protoreflect.MessageType) (reply, error) {
	var stored storedReply
	if err := json.Unmarshal(text, &stored); err != nil {
		return reply{}, err
	}
	if len(stored.Status) == 0 {
		m := kind.New().Interface()
		return reply{message: m}, proto.Unmarshal(stored.Message, m)
	}
	var st spb.Status
	if err := proto.Unmarshal(stored.Status, &st); err != nil {
		return reply{}, err
	}
	err := status.ErrorProto(&st)
	if err == nil {
		return reply{}, errors.New("a status of OK is no error")
	}
	return reply{err: err}, nil
}

// statusOf returns the status that gRPC makes of a handler's error.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}

// final reports whether the handler's reply is to be stored. What a lock further in has refused is
// not, since that handler has not run, nor what asks the client to come again.
func (e *exchange) final(ctx context.Context) bool {
	if e.err == nil {
		return e.keepCode(codes.OK)
	}
	_, refused := errors.AsType[*callError](e.err)
	st := statusOf(e.err)
	again := slices.ContainsFunc(st.Details(), isA[*errdetails.RetryInfo])
	return !refused && !again && ctx.Err() == nil && e.locks.own(e.err) == nil &&
		e.keepCode(st.Code())
}
