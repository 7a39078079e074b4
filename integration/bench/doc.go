// Package bench measures what the driver costs: budgets of the design's section 7, as ratios within one run.
//
// Every benchmark has a sub-benchmark for each way to do the same, so that benchstat compares them with -col /driver:
//
//	driver=bare       the wrapped driver alone, nothing fenced
//	driver=byhand     the wrapped driver alone; the program writes the fence into the statement and looks at its count
//	driver=fencedsql  this module
//	driver=sqlmw      github.com/ngrok/sqlmw around the first of these that the benchmark has: byhand, else bare
//	driver=otelsql    github.com/XSAM/otelsql, likewise
//	driver=parse      one parse of the text, in BenchmarkFirstSight
//	driver=parses     that, and one of what is sent for it
//
// What a way adds is measured call by call in turns with the way it is compared with, and reported as added-ns, over
// base-ns; ns/op is what package testing measures, one way after the other. Folder report prints the table of what is
// added, and of budgets kept. Budgets of allocations and of memory are tests.
package bench
