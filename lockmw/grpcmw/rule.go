package grpcmw

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
)

// rule says where the names of one method's calls come from.
type rule struct {
	method method

	// key makes them of a call, and of its request, or a stream's first
	// message.
	key       func(ctx context.Context, msg any) names.Set
	ofMessage bool // which key needs
}

// ForMethod locks calls of a method on the name that key makes of the request,
// of a stream of its first message. An invalid name is codes.InvalidArgument;
// what key returns by lockmw.Invalid, too, unless that has a status of its own.
// key is called concurrently.
//
// fullMethod is the generated constant, such as
// pb.Bank_Transfer_FullMethodName, and Req the method's request, or an
// interface that this has. It panics if the program has no generated code of
// such a method, or if its request is another.
func ForMethod[Req any, N lockmw.Name](fullMethod string, key func(Req) N) Option {
	r := &rule{method: describe("ForMethod", fullMethod), ofMessage: true}
	if key == nil {
		panic(fmt.Sprintf("lockbeat: grpcmw.ForMethod(%q) needs a function that derives the key "+
			"from the request", fullMethod))
	}
	var request any = r.method.request.Zero().Interface()
	if _, ok := request.(Req); !ok {
		panic(fmt.Sprintf("lockbeat: grpcmw.ForMethod(%q) derives the key from %v, but the "+
			"method's request is %T", fullMethod, reflect.TypeFor[Req](), request))
	}
	r.key = func(_ context.Context, msg any) names.Set {
		req, ok := msg.(Req)
		if !ok {
			return names.Invalid(misused(fmt.Sprintf("the key of %s is derived from %v, but its "+
				"request is %T: another interceptor has changed it", fullMethod,
				reflect.TypeFor[Req](), msg)))
		}
		return names.Set(lockmw.All(key(req)))
	}
	return r.option()
}

// ForMetadata locks calls of a method on a value of their metadata: on
// lockmw.Key(name, value), with name in lower case. A value that is missing,
// given twice, empty, too long or has control characters is
// codes.InvalidArgument. It panics if there is no such method, or if name can't
// be that of a text.
func ForMetadata(fullMethod, name string) Option {
	r := &rule{method: describe("ForMetadata", fullMethod)}
	name = strings.ToLower(name)
	if !isMetadataName(name) {
		panic(fmt.Sprintf("lockbeat: grpcmw.ForMetadata(%q, %q): metadata names are made of "+
			"letters, digits, '-', '_' and '.', and those "+
			"with \"grpc-\" or \"-bin\" carry no text of the caller", fullMethod, name))
	}
	r.key = func(ctx context.Context, _ any) names.Set {
		v := metadata.ValueFromIncomingContext(ctx, name)
		if len(v) != 1 || v[0] == "" || strings.ContainsFunc(v[0], isControl) {
			return names.Invalid(badKey(fmt.Sprintf("the call needs metadata %q once, of one "+
				"character or more, none of them a control character", name), nil))
		}
		return names.Of(names.Want{Name: lockmw.Key(name, v[0])})
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

// ForWholeMethod locks all calls of a method on its name: one at a time, on any
// server. It panics if there is no such method.
func ForWholeMethod(fullMethod string) Option {
	r := &rule{method: describe("ForWholeMethod", fullMethod)}
	r.key = func(context.Context, any) names.Set {
		return names.Of(names.Want{Name: fullMethod})
	}
	return r.option()
}

func (r *rule) option() Option {
	return own(func(s *settings) { s.rules = append(s.rules, r) })
}

// method is one that the program has generated code for.
type method struct {
	name           string
	stream         bool
	request, reply protoreflect.MessageType
}

// describe finds a method. It panics, with a message that says which function
// was given it, if the program has no generated code of it: a typing error
// would let the real one run without its lock.
func describe(who, full string) method {
	rest, rooted := strings.CutPrefix(full, "/")
	service, name, _ := strings.Cut(rest, "/")
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	described, isService := found.(protoreflect.ServiceDescriptor)
	if !rooted || !isService {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s is given %q, and the program has no generated code "+
			"of such a service: give the constant Service_Method_FullMethodName; a service "+
			"without generated code takes its locks by lockmw.Do", who, full))
	}
	m := described.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s is given %q, and service %s has no such method: "+
			"see %s", who, full, service, found.ParentFile().Path()))
	}
	request, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	reply, failed := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil || failed != nil {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s is given %q, and the program has no generated code "+
			"of its messages", who, full))
	}
	return method{full, m.IsStreamingClient() || m.IsStreamingServer(), request, reply}
}
