package stage

// Addresses are those of the first two servers.
func Addresses(listen string) (first, second string, err error) {
	p, err := parsePorts(listen)
	return p.take(), p.take(), err
}
