// Drives npm's redis-semaphore, and npm's Bottleneck, for the benchmarks: one request per line on
// stdin, one answer per line on stdout, both JSON; it ends with its stdin.
'use strict'
const Redis = require('ioredis')

let clients = [], workers = []

// Times are nanoseconds, as Go's.
const now = () => Math.round(performance.now() * 1e6)
const wait = ns => new Promise(resolve => setTimeout(resolve, ns / 1e6))

// connect opens the clients and gives each worker what it acquires. Shape is Go's.
async function connect({ url, prefix, shape }) {
  clients = Array.from({ length: shape.Clients }, () => new Redis(url))
  await Promise.all(clients.map(c => c.ping()))
  const of = await (shape.Rate > 0 ? bottlenecks : semaphores)(prefix + shape.Name, shape)
  workers = Array.from({ length: shape.Workers }, (_, w) => of(w))
  for (const w of workers.slice(0, clients.length)) {
    await w.acquire()
    await w.release()
  }
  return {}
}

// semaphores returns what makes a worker's semaphore. One whose lock is lost must not end
// the process: its release will tell.
function semaphores(name, { Each, Limit }) {
  const { Semaphore } = require('redis-semaphore')
  const options = { onLockLost() {} }
  return w => new Semaphore(clients[w % clients.length], Each ? name + '-' + w : name, Limit, options)
}

// bottlenecks returns what makes a worker's share of a rate. What Bottleneck lets through is an
// empty job, whose time acquire returns.
async function bottlenecks(id, { Rate }) {
  const Bottleneck = require('bottleneck')
  const all = clients.map(client => {
    const connection = new Bottleneck.IORedisConnection({ client })
    return new Bottleneck({ id, connection, datastore: 'ioredis', minTime: 1000 / Rate })
  })
  await Promise.all(all.map(b => b.ready()))
  return w => ({ acquire: () => all[w % all.length].schedule(async () => now()), release() {} })
}

// spin has every worker acquire and release for a while. Load and answer are Go's Load and Outcome,
// with the times of what a rate let through.
async function spin({ load }) {
  const begin = now(), Each = workers.map(() => 0), Beliefs = [], Grants = []
  await Promise.all(workers.map(async (semaphore, w) => {
    while (Each[w] === 0 || now() - begin < load.For) {
      const Asked = now() - begin
      const at = await semaphore.acquire()
      const Start = now() - begin
      if (at) Grants.push(Math.round(at - begin))
      if (load.Hold > 0) await wait(load.Hold)
      const End = now() - begin
      await semaphore.release()
      Each[w]++
      if (load.Times) Beliefs.push({ Granted: true, Asked, Start, End })
      if (now() - begin >= load.For) return
    }
  }))
  return { Took: now() - begin, Pairs: Each.reduce((sum, n) => sum + n), Each, Beliefs, Grants }
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

const operations = { connect, spin, pass }

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
