package doctor

// Rights are the lists that the doctor looks for.
func Rights() (all []string) {
	for _, cluster := range []bool{false, true} {
		for _, g := range grants(cluster) {
			all = append(all, g.rights)
		}
	}
	return all
}

// Latency is what the doctor says of a server that is pinged so.
func Latency(ping func() error) string {
	f := latency(ping)
	return f.Status.String() + " " + f.Found
}
