// Drives npm's redis-semaphore, and npm's Bottleneck, for the benchmarks: one request per line on
// stdin, one answer per line on stdout, both JSON; it ends with its stdin.
'use strict'
const Redis = require('ioredis')

let shape, clients = [], workers = []

// Times are nanoseconds, as Go's.
const now = () => Math.round(performance.now() * 1e6)
const wait = ns => new Promise(resolve => setTimeout(resolve, ns / 1e6))

// connect opens the clients and gives each worker its semaphore. A worker whose
// lock is lost must not end the process: its release will tell.
async function connect({ url, prefix, shape: s }) {
  const { Semaphore } = require('redis-semaphore')
  shape = s
  clients = Array.from({ length: s.Clients }, () => new Redis(url))
  await Promise.all(clients.map(c => c.ping()))
  workers = Array.from({ length: s.Workers }, (_, w) => {
    const name = prefix + s.Name + (s.Each ? '-' + w : '')
    return new Semaphore(clients[w % clients.length], name, s.Limit, { onLockLost() {} })
  })
  for (const w of workers.slice(0, clients.length)) {
    await w.acquire()
    await w.release()
  }
  return {}
}

// spin has every worker acquire and release for a while. Load and answer are Go's Load and Outcome.
async function spin({ load }) {
  const begin = now(), Each = workers.map(() => 0), Beliefs = []
  await Promise.all(workers.map(async (semaphore, w) => {
    while (Each[w] === 0 || now() - begin < load.For) {
      const Asked = now() - begin
      await semaphore.acquire()
      const Start = now() - begin
      if (load.Hold > 0) await wait(load.Hold)
      const End = now() - begin
      await semaphore.release()
      Each[w]++
      if (load.Times) Beliefs.push({ Granted: true, Asked, Start, End })
      if (now() - begin >= load.For) return
    }
  }))
  return { Took: now() - begin, Pairs: Each.reduce((sum, n) => sum + n), Each, Beliefs }
}

// pass hands the permit to and fro between the first two workers.
async function pass({ n, pause, most, poll }) {
  const Took = [], begin = now()
  let holder = 0
  await workers[0].acquire()
  for (let i = 1; Took.length < n && (i <= 3 || now() - begin < most); i++) {
    const next = i % 2
    const waiting = workers[next].acquire().then(now)
    await wait(pause + Math.random() * poll)
    const start = now(), gave = workers[holder].release()
    Took.push(await waiting - start)
    await gave
    holder = next
  }
  await workers[holder].release()
  return { Took }
}

let flow, raters = [], redis

// rate opens the clients of Bottleneck, which share a rate. Flow is Go's.
async function rate({ url, id, flow: f }) {
  const Bottleneck = require('bottleneck')
  flow = { ...f, id }
  redis = new Redis(url)
  raters = Array.from({ length: f.Clients }, () => {
    const connection = new Bottleneck.IORedisConnection({ client: new Redis(url) })
    return new Bottleneck({ id, connection, datastore: 'ioredis', minTime: 1000 / f.Rate })
  })
  await Promise.all(raters.map(r => r.ready()))
  return {}
}

// run has every worker schedule an empty job again and again. The answer is Go's Flowed.
async function run({ most }) {
  const begin = now(), Each = Array.from({ length: flow.Workers }, () => 0), Grants = [], Waits = []
  const worker = async w => {
    while (now() - begin < most) {
      const asked = now()
      const at = await raters[w % raters.length].schedule(async () => now() - begin)
      if (at >= most) return
      Each[w]++
      Grants.push({ From: at, To: at })
      Waits.push(Math.round(now() - asked))
    }
  }
  await Promise.race([wait(most), Promise.all(Each.map((_, w) => worker(w)))])
  return { Grants, Waits, Each }
}

// forget removes what Bottleneck has stored.
async function forget() {
  await Promise.all(raters.map(r => r.stop({ dropWaitingJobs: true }).catch(() => {})))
  const keys = await redis.keys(`b_${flow.id}_*`)
  if (keys.length > 0) await redis.del(...keys)
  return {}
}

const operations = { connect, spin, pass, rate, run, forget }

async function main() {
  const lines = require('node:readline').createInterface({ input: process.stdin })
  for await (const line of lines) {
    const request = JSON.parse(line)
    let answer
    try {
      answer = await operations[request.op](request)
    } catch (err) {
      answer = { error: String(err && err.message || err) }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0)
}

main()
