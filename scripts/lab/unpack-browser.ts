import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import chromium from "@sparticuz/chromium";

// A process of its own: the package unpacks into the folder that TMPDIR names, which the process that asks uses for other things.
const path = await chromium.executablePath();
const { LD_LIBRARY_PATH, FONTCONFIG_PATH } = process.env;
if (FONTCONFIG_PATH === undefined)
  throw new Error("the browser's package names no folder of fonts");
// The package's own file looks in /tmp/fonts. Without a font Chromium draws no text, and ends when it looks for a rare character.
await writeFile(
  join(FONTCONFIG_PATH, "fonts.conf"),
  `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>${join(FONTCONFIG_PATH, "fonts")}</dir><cachedir>${join(FONTCONFIG_PATH, "cache")}</cachedir></fontconfig>
`,
);
console.log(JSON.stringify({ path, env: { LD_LIBRARY_PATH, FONTCONFIG_PATH } }));
