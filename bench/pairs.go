package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-lock/holdfast/bench/load"
	"github.com/holdfast-lock/holdfast/bench/lock"
	"github.com/holdfast-lock/holdfast/bench/report"
)

// ctx is of all calls: a run that hangs is ended by who started it.
var ctx = context.Background()

// The peers, and how they are used.
const (
	gatewayOwn    = "etcd gateway, own lease"
	gatewayShared = "etcd gateway, shared lease"
	goMutex       = "etcd concurrency.Mutex"
	redisMemory   = "Redis, no file"
	redisDurable  = "Redis, synced file"
)

// pairs measures how many locks can be taken and given back, each worker its
// own.
func (b *bench) pairs(workers int, peers bool) error {
	measure := fmt.Sprintf("acquire + release, own mutex, %d workers", workers)
	sides := []side{b.rawPairs(workers), b.holdfastPairs(embedded, workers), b.holdfastPairs(external, workers), b.floorCalls(workers, "acquire", "release")}
	ended := func() {}
	if peers {
		more, end, err := b.peerPairs(workers)
		if err != nil {
			return err
		}
		sides, ended = append(sides, more...), end
	}
	defer ended()
	all, err := b.interleave(measure, sides)
	if err != nil {
		return err
	}
	b.each(measure, "/s", sides, all, perSecond)
	limits := map[string]float64{embedded: 0.75, external: 0.5}
	factors := map[string]float64{embedded: 5, external: 3}
	for _, of := range twins {
		v := all[of].of(perSecond)
		goal := report.Goal{}
		if workers == 64 {
			goal = report.RatioAtLeast(limits[of])
		}
		b.add(than(row(measure+", beside put + delete", of, "/s", v...), v, raw, all[raw].of(perSecond), goal))
		if peers {
			if workers == 64 {
				goal = report.RatioAtLeast(factors[of])
			}
			b.add(than(row(measure+", beside the gateway", of, "/s", v...), v, gatewayOwn, all[gatewayOwn].of(perSecond), goal))
		}
	}
	return nil
}

// rawPairs is the limit: what is least for a lock is one write to take it, and
// one to give it back.
func (b *bench) rawPairs(workers int) side {
	return closed(raw, workers, load.Timed(func(worker int) error {
		key := fmt.Sprintf("/raw/%d", worker)
		if _, err := b.etcd.Put(ctx, key, "value"); err != nil {
			return err
		}
		_, err := b.etcd.Delete(ctx, key)
		return err
	}))
}

func (b *bench) holdfastPairs(of string, workers int) side {
	c := b.holdfast(of)
	return closed(of, workers, load.Timed(func(worker int) error {
		mutex, token := fmt.Sprintf("own-%d", worker), lock.NewToken()
		if err := c.Acquire(mutex, token, 0, 0, 0); err != nil {
			return err
		}
		return c.Release(mutex, token)
	}))
}

func (b *bench) peerPairs(workers int) (sides []side, end func(), err error) {
	shared, err := b.gateway.Grant()
	if err != nil {
		return nil, nil, err
	}
	sessions := make([]*concurrency.Session, workers)
	for i := range sessions {
		if sessions[i], err = concurrency.NewSession(b.etcd); err != nil {
			return nil, nil, err
		}
	}
	keep := make(chan struct{})
	go b.keepAlive(shared, keep)
	sides = []side{
		closed(gatewayOwn, workers, load.Timed(b.gatewayCycle)),
		closed(gatewayShared, workers, load.Timed(func(worker int) error {
			key, err := b.gateway.Lock(fmt.Sprintf("shared-%d", worker), shared)
			if err != nil {
				return err
			}
			return b.gateway.Unlock(key)
		})),
		closed(goMutex, workers, load.Timed(func(worker int) error {
			m := concurrency.NewMutex(sessions[worker], fmt.Sprintf("/mutex/%d", worker))
			if err := m.Lock(ctx); err != nil {
				return err
			}
			return m.Unlock(ctx)
		})),
	}
	if b.rig.Redis != nil {
		sides = append(sides, redisPairs(redisMemory, b.rig.Redis.Addr, workers), redisPairs(redisDurable, b.rig.Durable.Addr, workers))
	}
	return sides, func() {
		close(keep)
		for _, s := range sessions {
			_ = s.Close()
		}
	}, nil
}

// keepAlive keeps the shared lease, as whoever shares one has to.
func (b *bench) keepAlive(lease string, end <-chan struct{}) {
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = b.gateway.Post("/v3/lease/keepalive", fmt.Appendf(nil, `{"ID":"%s"}`, lease), nil)
		case <-end:
			return
		}
	}
}

// gatewayCycle is a lock that frees itself when its client dies: with a lease
// of its own.
func (b *bench) gatewayCycle(worker int) error {
	lease, err := b.gateway.Grant()
	if err != nil {
		return err
	}
	key, err := b.gateway.Lock(fmt.Sprintf("own-%d", worker), lease)
	if err != nil {
		return err
	}
	if err := b.gateway.Unlock(key); err != nil {
		return err
	}
	return b.gateway.Revoke(lease)
}

// unlock deletes the key if it is still ours. Source: Redis' own documentation
// of SET.
var unlock = redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)

func redisPairs(name, addr string, workers int) side {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: workers})
	return closed(name, workers, load.Timed(func(worker int) error {
		key, token := fmt.Sprintf("own-%d", worker), lock.NewToken()
		if err := client.SetArgs(ctx, key, token, redis.SetArgs{Mode: "NX", TTL: 10 * time.Second}).Err(); err != nil {
			return err
		}
		return unlock.Run(ctx, client, []string{key}, token).Err()
	}))
}
