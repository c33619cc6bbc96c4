import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { oneAtATime } from "../one-at-a-time.ts";

/**
 * A Chromium without a window, from npm alone; close it when done. It unpacks its shared libraries too, so it starts on a machine that
 * has none of what a desktop has.
 */
export const launchBrowser = async (): Promise<Browser> => {
  // Read by the package when it is imported: unpack what a bare Amazon Linux 2023 lacks, which is what a bare Debian lacks.
  process.env.AWS_LAMBDA_JS_RUNTIME ??= "nodejs22.x";
  const [{ default: chromium }, { chromium: driver }] = await Promise.all([
    import("@sparticuz/chromium"),
    import("playwright-core"),
  ]);
  // The package takes what another process is still unpacking for whole.
  const lock = join(tmpdir(), `chromium-${process.getuid?.() ?? "user"}.lock`);
  return driver.launch({
    executablePath: await oneAtATime(lock, () => chromium.executablePath()),
    timeout: 90_000,
    // The package's own arguments are for functions that live for a second: one process for all, and no web security.
    args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
    headless: true,
    env: { ...process.env } as Record<string, string>,
  });
};
