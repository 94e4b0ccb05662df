package servicetest_test

import (
	"testing"

	"github.com/holdfast-lock/holdfast/internal/service"
	"github.com/holdfast-lock/holdfast/internal/service/servicetest"
)

func open(t *testing.T, policy service.Policy) service.Store {
	m := servicetest.NewMemory(policy)
	t.Cleanup(m.Close)
	return m
}

func TestMemory(t *testing.T) {
	servicetest.TestStore(t, open, servicetest.InBubbles())
}

func TestMemoryInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	servicetest.TestStore(t, open, servicetest.InParallel())
}
