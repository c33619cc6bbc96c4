/** `bun run svc-release-manifest -- --spec FILE --out FILE`: writes the manifest of a release. See [releases](../../docs/release.md). */
import { runManifestCommand } from "./command-line.ts";

const args = process.argv.slice(2).filter((arg, index) => index > 0 || arg !== "--");
process.exitCode = await runManifestCommand(args, {
  stdout: process.stdout,
  stderr: process.stderr,
});
