package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// allFaults returns every fault of the packages' production files, in the order of their names and
// lines.
func allFaults(root string, packages []pkg) ([]fault, error) {
	var all []fault
	for _, p := range packages {
		for _, name := range p.sources() {
			file := p.folder + "/" + name
			src, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			faults := luaFaults(file, src)
			if strings.HasSuffix(name, ".go") {
				if faults, err = goFaults(file, src); err != nil {
					return nil, err
				}
			}
			all = append(all, faults...)
		}
	}
	return all, nil
}

// shuffle puts the faults in the order in which a seed plants them, one for each line at most.
func shuffle(faults []fault, seed uint64) []fault {
	faults = slices.Clone(faults)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(faults), func(i, j int) {
		faults[i], faults[j] = faults[j], faults[i]
	})
	taken := map[string]bool{}
	return slices.DeleteFunc(faults, func(f fault) bool {
		line := fmt.Sprintf("%s:%d", f.file, f.line)
		had := taken[line]
		taken[line] = true
		return had
	})
}

// named returns the faults that a user means by the name.
func named(faults []fault, name string) []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !f.is(name) })
}
