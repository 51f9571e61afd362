package grpcmw

import (
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lockbeat/lockbeat/lockmw"
)

// rule says where the key of one method's calls comes from. Exactly one of message and call is set.
type rule struct {
	method    string
	described protoreflect.MethodDescriptor // nil if the program has no generated code for it

	// message derives it from the request, of a stream from the first message.
	message func(msg any) (string, *callError)
	// call derives it from what is known before; values reads the call's metadata.
	call func(values func(name string) []string) (string, *callError)

	opts []lockmw.Option // of the interceptor that the rule is for
}

// ForMethod locks calls of a method on the key that a function derives from the request
// message; of a stream, from the first message that the client sends. What the function
// returns is the lock's name as it is, so that several methods can share locks, also with
// lockmw.Do; build it by lockmw.Key. An empty or too long one is codes.InvalidArgument,
// and the lock's store is not asked. The function is called concurrently, and sees what
// the client has sent: put the interceptor inside of whatever checks that.
//
// fullMethod is "/package.Service/Method", the generated constant
// Service_Method_FullMethodName. Req is the method's request, such as *pb.TransferRequest,
// or an interface that this has. It panics if there is no such method, or if its request
// is another. The interceptor panics if the program has no generated protobuf code of the
// service, unless [Unlinked] names that: a request of another type is codes.Internal then.
func ForMethod[Req any](fullMethod string, key func(Req) string) Option {
	if key == nil {
		panic(fmt.Sprintf("lockbeat: grpcmw.ForMethod(%q) needs a function that derives the key "+
			"from the request", fullMethod))
	}
	r := &rule{method: fullMethod, described: describe("grpcmw.ForMethod", fullMethod)}
	if r.described != nil {
		checkRequest[Req](r.described, fullMethod)
	}
	r.message = func(msg any) (string, *callError) {
		req, ok := msg.(Req)
		if !ok {
			return "", misused(fmt.Sprintf("the key of %s is derived from %v, but its request is "+
				"%T: correct the type in ForMethod",
				fullMethod, reflect.TypeFor[Req](), msg))
		}
		return key(req), nil
	}
	return r.option()
}

// checkRequest panics unless the method's request is a Req.
func checkRequest[Req any](m protoreflect.MethodDescriptor, fullMethod string) {
	message, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		return // described at run time, without Go code
	}
	if request := message.Zero().Interface(); !isA[Req](request) {
		panic(fmt.Sprintf("lockbeat: grpcmw.ForMethod(%q) derives the key from %v, but the "+
			"method's request is %T",
			fullMethod, reflect.TypeFor[Req](), request))
	}
}

func isA[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// ForMetadata locks calls of a method on a value of their metadata: on lockmw.Key(name,
// value), the name in lower case. A call in which it is missing, given more than once,
// empty, too long or has control bytes is codes.InvalidArgument, and the lock's store is
// not asked.
//
// It panics if there is no such method (see [ForMethod]), or if name can't be that of a text value.
func ForMetadata(fullMethod, name string) Option {
	r := &rule{method: fullMethod, described: describe("grpcmw.ForMetadata", fullMethod)}
	name = strings.ToLower(name)
	if !isMetadataName(name) {
		panic(fmt.Sprintf("lockbeat: grpcmw.ForMetadata(%q, %q): metadata names are made of "+
			"letters, digits, '-', '_' and '.', and those "+
			"with \"grpc-\" or \"-bin\" carry no text of the caller", fullMethod, name))
	}
	r.call = func(values func(string) []string) (string, *callError) {
		switch v := values(name); {
		case len(v) == 0:
			return "", badKey(fmt.Sprintf("metadata %q is missing", name), nil)
		case len(v) > 1:
			return "", badKey(fmt.Sprintf("metadata %q is given %d times", name, len(v)), nil)
		case v[0] == "":
			return "", badKey(fmt.Sprintf("metadata %q is empty", name), nil)
		case strings.ContainsFunc(v[0], isControl):
			return "", badKey(fmt.Sprintf("metadata %q has control bytes", name), nil)
		default:
			return lockmw.Key(name, v[0]), nil
		}
	}
	return r.option()
}

func isMetadataName(name string) bool {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.", c)
	}
	return name != "" && !strings.ContainsFunc(name, odd) && !strings.HasPrefix(name, "grpc-") &&
		!strings.HasSuffix(name, "-bin")
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// ForWholeMethod locks all calls of a method on one key, the method's
// name: one call at a time, on whichever server. It panics if there is no such method (see
// [ForMethod]).
func ForWholeMethod(fullMethod string) Option {
	r := &rule{method: fullMethod, described: describe("grpcmw.ForWholeMethod", fullMethod)}
	r.call = func(func(string) []string) (string, *callError) { return fullMethod, nil }
	return r.option()
}

// Unlinked names services that rules may be for although the program has no generated protobuf code
// of them: they are described at run time, or speak another codec. Of such a rule neither the
// method nor the request can be checked when the program starts. It panics without a service, and
// on what can't be the name of one, as "bank.v1.Bank" is. Default: none. An interceptor with a rule
// for another service that the program does not know panics, since that may be a typing error, by
// which the real method would run without its lock.
func Unlinked(services ...string) Option {
	if len(services) == 0 {
		panic("lockbeat: grpcmw.Unlinked needs the names of services, such as \"bank.v1.Bank\"")
	}
	for _, name := range services {
		if !protoreflect.FullName(name).IsValid() {
			panic(fmt.Sprintf("lockbeat: grpcmw.Unlinked(%q) can't be meant: give the full name "+
				"of a service, such as \"bank.v1.Bank\"", name))
		}
	}
	return option(func(s *settings) {
		if s.unlinked == nil {
			s.unlinked = make(map[protoreflect.FullName]bool)
		}
		for _, name := range services {
			s.unlinked[protoreflect.FullName(name)] = true
		}
	})
}

// option gives each interceptor a copy of the rule, so that one
// option can serve several interceptors.
func (r *rule) option() Option {
	return option(func(s *settings) {
		own := *r
		s.rules = append(s.rules, &own)
	})
}

// keyOf derives the key of a call.
func (r *rule) keyOf(msg any, values func(string) []string) (string, *callError) {
	if r.message != nil {
		return r.message(msg)
	}
	return r.call(values)
}
