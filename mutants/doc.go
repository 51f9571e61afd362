// Command mutants asks whether the tests would notice: it plants one fault at a time in a copy of
// the checkout, such as a condition negated or a statement dropped, and runs the tests that could
// find it.
//
//	go run .                                      60 faults, by a seed that is printed
//	go run . -seed 7 -n 20 -packages ./lockmw/... 20 others, of some packages
//	go run . -seed 7 -list                        what would be planted
//	go run . -one renewer/lease.go:42             every fault for a line, or one by its ID
//
// A fault is found if a test fails twice with it, or hangs. It is looked for by the tests of its
// own package, those of the file of the same name first, then by those of the packages that import
// it, the quickest first, unless none of their tests comes by that line. What does not compile is
// not counted, and another fault takes its place.
//
// The same seed plants the same faults in the same order for as long as the code is the same. The
// exit status is 1 if fewer were found than -require asks for, or if the unchanged code fails.
//
// # Survivors
//
// A survivor is a line that no test is about: write the test, see it fail with the fault planted
// (`-one`), and pass without. If no test could tell the two apart, the fault changes nothing: say
// so with the reason in equivalent.txt, which is read at each run.
package main
