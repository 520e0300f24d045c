// Drives npm's redis-semaphore for the benchmarks: one request per line on
// stdin, one answer per line on stdout, both JSON; it ends with its stdin.
'use strict'
const Redis = require('ioredis')
const { Semaphore } = require('redis-semaphore')

let shape, clients = [], workers = []

const now = () => performance.now()
const wait = ms => new Promise(resolve => setTimeout(resolve, ms))

// connect opens the clients and gives each worker its semaphore. A worker whose
// lock is lost must not end the process: its release will tell.
async function connect({ url, prefix, shape: s }) {
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

// spin has every worker acquire and release for a while. Times are milliseconds.
async function spin({ forMS, holdMS, times }) {
  const begin = now(), each = workers.map(() => 0), beliefs = []
  await Promise.all(workers.map(async (semaphore, w) => {
    while (each[w] === 0 || now() - begin < forMS) {
      const asked = now() - begin
      await semaphore.acquire()
      const had = now() - begin
      if (holdMS > 0) await wait(holdMS)
      const gave = now() - begin
      await semaphore.release()
      each[w]++
      if (times) beliefs.push([asked, had, gave])
      if (now() - begin >= forMS) return
    }
  }))
  return { tookMS: now() - begin, each, beliefs }
}

// pass hands the permit to and fro between the first two workers.
async function pass({ n, pauseMS, mostMS, pollMS }) {
  const took = [], begin = now()
  let holder = 0
  await workers[0].acquire()
  for (let i = 1; took.length < n && (i <= 3 || now() - begin < mostMS); i++) {
    const next = i % 2
    const waiting = workers[next].acquire().then(now)
    await wait(pauseMS + Math.random() * pollMS)
    const start = now(), gave = workers[holder].release()
    took.push(await waiting - start)
    await gave
    holder = next
  }
  await workers[holder].release()
  return { tookMS: took }
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
