import chromium from "@sparticuz/chromium";

// A process of its own: the package unpacks into the folder that TMPDIR names, which the process that asks uses for other things.
const path = await chromium.executablePath();
const { LD_LIBRARY_PATH, FONTCONFIG_PATH } = process.env;
console.log(JSON.stringify({ path, env: { LD_LIBRARY_PATH, FONTCONFIG_PATH } }));
