package grpcmw

import "google.golang.org/protobuf/reflect/protoreflect"

// DecodeReply reads a stored reply: a message of a kind, or an error, or what is wrong with it.
func DecodeReply(text []byte, kind protoreflect.MessageType) (message any, failed, wrong error) {
	r, err := decodeReply(text, kind)
	return r.message, r.err, err
}
