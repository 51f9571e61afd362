package grpcmw

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// splitMethod takes "/pkg.Service/Method" apart.
func splitMethod(full string) (service protoreflect.FullName, method protoreflect.Name, ok bool) {
	rest, slash := strings.CutPrefix(full, "/")
	before, after, two := strings.Cut(rest, "/")
	service, method = protoreflect.FullName(before), protoreflect.Name(after)
	return service, method, slash && two && service.IsValid() && method.IsValid()
}

// describe finds a method among those that the program has generated code for. It is nil for a
// service without generated code: nothing is known of that. It panics with a message that begins
// with who if the method does not exist.
func describe(who, full string) protoreflect.MethodDescriptor {
	service, method, ok := splitMethod(full)
	if !ok {
		panic(fmt.Sprintf("lockbeat: %s: %q is no full method name: write "+
			"\"/package.Service/Method\", as the generated constant "+
			"Service_Method_FullMethodName has it", who, full))
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(service)
	if err != nil {
		return nil
	}
	described, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		panic(fmt.Sprintf("lockbeat: %s: %s is no service: see %s", who, service,
			found.ParentFile().Path()))
	}
	m := described.Methods().ByName(method)
	if m == nil {
		panic(fmt.Sprintf("lockbeat: %s: service %s has no method %s: see %s", who, service, method,
			found.ParentFile().Path()))
	}
	return m
}

// isStream reports whether a method is a streaming one.
func isStream(m protoreflect.MethodDescriptor) bool {
	return m.IsStreamingClient() || m.IsStreamingServer()
}
