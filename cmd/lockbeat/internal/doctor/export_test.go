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
