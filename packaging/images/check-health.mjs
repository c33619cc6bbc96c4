/**
 * The health check of the images of core and web: `check-health.mjs [path]` exits with 0 if the program in this container answers `path`
 * (default `/healthz`) on `PORT` with 2xx within four seconds, else with 1 and one line on stderr.
 */
const [path = "/healthz"] = process.argv.slice(2);
const url = `http://127.0.0.1:${process.env.PORT}${path}`;
try {
  const { ok, status } = await fetch(url, { signal: AbortSignal.timeout(4_000) });
  if (!ok) throw new Error(`status ${status}`);
} catch (error) {
  process.stderr.write(`${url}: ${error.cause?.message ?? error.message}\n`);
  process.exitCode = 1;
}
