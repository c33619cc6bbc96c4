// Mounts a file system at the path of its argument that answers nothing but the kernel's first message: every call into it hangs until this
// process ends. Needs root and /dev/fuse. The messages are those of linux/fuse.h.
import { spawnSync } from "node:child_process";
import { openSync, readSync, writeSync } from "node:fs";

const [at = ""] = process.argv.slice(2);
const device = openSync("/dev/fuse", "r+");
const options = "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other";
const { status } = spawnSync("mount", ["-i", "-t", "fuse", "-o", options, "hung", at], {
  stdio: ["ignore", "inherit", "inherit", device],
});
if (status !== 0) process.exit(1);
const request = Buffer.alloc(128 * 1024);
readSync(device, request);
const headerBytes = 16;
const initBytes = 64;
const answer = Buffer.alloc(headerBytes + initBytes);
answer.writeUInt32LE(answer.length, 0);
answer.writeBigUInt64LE(request.readBigUInt64LE(8), 8);
// Version 7.31, and the sizes of reads and writes.
answer.writeUInt32LE(7, headerBytes);
answer.writeUInt32LE(31, headerBytes + 4);
answer.writeUInt32LE(65_536, headerBytes + 8);
answer.writeUInt32LE(65_536, headerBytes + 20);
writeSync(device, answer);
console.log("hangs");
setInterval(() => undefined, 60_000);
