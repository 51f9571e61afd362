package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// peersPage is the page, in the folder of documents, that holds the results.
const peersPage = "benchmarks-peers.md"

// A section's results stand between two markers, and are replaced with each run of it.
func markers(section string) (from, to string) {
	return "<!-- results of " + section + " -->\n", "<!-- end of " + section + " -->\n"
}

// publish puts one section's results and plots into the folder of documents.
func publish(folder, section, text string, p *plots) error {
	path := filepath.Join(folder, peersPage)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	from, to := markers(section)
	before, rest, ok := strings.Cut(string(page), from)
	_, after, ended := strings.Cut(rest, to)
	if !ok || !ended {
		return fmt.Errorf("%s has no markers for the section %s: %q and %q", path, section, from,
			to)
	}
	//nolint:gosec // documents are for everybody
	if err := os.MkdirAll(filepath.Join(folder, "plots"), 0o755); err != nil {
		return err
	}
	files, err := p.save(filepath.Join(folder, "plots"))
	if err != nil {
		return err
	}
	var images strings.Builder
	for i, file := range files {
		fmt.Fprintf(&images, "\n![%s](plots/%s)\n", p.all[i].title, file)
	}
	page = []byte(before + from + text + images.String() + "\n" + to + after)
	return os.WriteFile(path, page, 0o644) //nolint:gosec // as above
}
