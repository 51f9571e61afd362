package proxy

// Cut returns the frames that stream, arriving in chunks of the given size, is
// cut into.
func Cut(stream []byte, chunk int) []string {
	var f framer
	var frames [][]byte
	for len(stream) > 0 {
		n := min(chunk, len(stream))
		frames = append(frames, f.push(stream[:n])...)
		stream = stream[n:]
	}
	frames = append(frames, f.rest()...)
	var texts []string
	for _, frame := range frames {
		texts = append(texts, string(frame))
	}
	return texts
}
