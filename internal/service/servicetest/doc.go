// Package servicetest has what tests of the service and of its stores need: a
// reference store in memory, a store that loses replies, and TestStore, the
// comments of service.Store made executable.
package servicetest
