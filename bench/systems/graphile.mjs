// graphile-worker through its public API: the same verbs as bench/agent.py, which describes them.
import { writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

const require = createRequire(`${process.env.BENCH_NODE_MODULES}/package.json`);
const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const PAYLOAD = { n: 1 };
const WARM_UP = 50;
const CHUNK = 1000;
const REPORT_MS = 20;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    dsn: { type: "string" },
    options: { type: "string", default: "{}" },
    jobs: { type: "string", default: "0" },
    "due-in": { type: "string", default: "0" },
    writers: { type: "string", default: "1" },
    ring: { type: "boolean", default: false },
  },
});
const jobs = Number(values.jobs);
const options = JSON.parse(values.options);
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

const write = (line) => writeSync(1, `${line}\n`);
const now = () => process.hrtime.bigint();
const secondsSince = (started) => Number(now() - started) / 1e9;
const connect = (maxPoolSize) => makeWorkerUtils({ connectionString: values.dsn, maxPoolSize, logger });
const lines = () => createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const verbs = {
  async setup() {
    const utils = await connect(2);
    await utils.migrate();
    await utils.release();
  },

  async bulk() {
    const utils = await connect(2);
    const dueIn = Number(values["due-in"]);
    const runAt = dueIn ? new Date(Date.now() + dueIn * 1000) : undefined;
    const started = now();
    for (let left = jobs; left > 0; left -= CHUNK) {
      await utils.addJobs(Array.from({ length: Math.min(left, CHUNK) }, () => ({ identifier: "noop", payload: PAYLOAD, runAt })));
    }
    write(JSON.stringify({ seconds: secondsSince(started) }));
    await utils.release();
  },

  async single() {
    const writers = Number(values.writers);
    const utils = await connect(Math.max(2, writers));
    const produce = async (count) => {
      for (let each = 0; each < count; each++) await utils.addJob("noop", PAYLOAD);
    };
    const all = (count) => Promise.all(Array.from({ length: writers }, () => produce(count)));
    await all(WARM_UP);
    const started = now();
    await all(Math.floor(jobs / writers));
    write(JSON.stringify({ seconds: secondsSince(started) }));
    await utils.release();
  },

  async probe() {
    const utils = await connect(2);
    await utils.migrate();
    write("ready");
    for await (const _ of { [Symbol.asyncIterator]: lines }) {
      const called = now();
      await utils.addJob("noop", PAYLOAD);
      write(`${called} ${now()}`);
    }
    await utils.release();
  },

  async work() {
    let handled = 0;
    const input = lines();
    write("ready");
    await input.next();
    // No worker outlives a harness that was killed.
    input.next().then(() => process.exit());
    let noop = async () => {
      handled++;
    };
    if (values.ring) {
      noop = async () => {
        const started = now();
        write(`${++handled} ${started}`);
      };
    } else {
      let reported = 0;
      setInterval(() => {
        if (handled !== reported) write(`${(reported = handled)} ${now()}`);
      }, REPORT_MS);
    }
    const { concurrency, ...worker } = options;
    await run({
      connectionString: values.dsn,
      concurrency,
      noHandleSignals: true,
      logger,
      taskList: { noop },
      preset: { worker },
    });
  },
};

await verbs[positionals[0]]();
