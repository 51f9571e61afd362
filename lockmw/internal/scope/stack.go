package scope

import "runtime"

// stackRoom is what the lock takes of a goroutine's stack, down to the client's connection: 9
// kB.
const stackRoom = 9 << 10

// growStack gives the goroutine the stack that the lock needs, at once. A new goroutine, as
// gRPC and asynq have one for each call, begins with a few kB; the stack doubles each time that
// it is used up, and is copied frame by frame: up to three times on the way, and once from
// here, where there are few frames.
//
//go:noinline
func growStack() {
	var room [stackRoom]byte
	runtime.KeepAlive(&room)
}
