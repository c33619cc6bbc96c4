import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { execute } from "../execute.ts";
import { oneAtATime } from "../one-at-a-time.ts";

/** This user's: the package takes what it finds in the folder for temporary files, whoever owns it, and also while it is still unpacked. */
const folder = join(tmpdir(), `svc-browser-${process.getuid?.() ?? "user"}`);

const unpacking = fileURLToPath(new URL("./unpack-browser.ts", import.meta.url));

/** Returns the program's path, and where its shared libraries and fonts are. */
const unpackBrowser = async (): Promise<{
  path: string;
  env: Record<"LD_LIBRARY_PATH" | "FONTCONFIG_PATH", string>;
}> => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const { stdout } = await oneAtATime(join(folder, "lock"), () =>
    execute(process.execPath, [unpacking], {
      // Unpack what a bare Amazon Linux 2023 lacks, which is what a bare Debian lacks.
      env: { ...process.env, TMPDIR: folder, AWS_LAMBDA_JS_RUNTIME: "nodejs22.x" },
    }),
  );
  return JSON.parse(stdout);
};

/** Take a sixth less processor time to open a page: V8 without helper threads, and one tile for a window instead of a dozen. */
const frugal = [
  "--js-flags=--single-threaded",
  "--default-tile-width=1456",
  "--default-tile-height=1024",
];

/**
 * A Chromium without a window, from npm alone; close it when done. It unpacks its shared libraries too, so it starts on a machine that
 * has none of what a desktop has. `launchBrowser([])` starts one whose times are to be measured.
 */
export const launchBrowser = async (options: readonly string[] = frugal): Promise<Browser> => {
  const { chromium } = await import("playwright-core");
  const { path, env } = await unpackBrowser();
  return chromium.launch({
    executablePath: path,
    timeout: 90_000,
    // The package's own arguments are for functions that live for a second: one process for all, and no web security.
    args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none", ...options],
    headless: true,
    env: { ...process.env, ...env },
  });
};
