import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, normalize, relative } from "node:path";
import GithubSlugger from "github-slugger";
import { Marked } from "marked";
import { repositoryFiles } from "../repository-files.ts";

/** The files that a deployment needs beside the images, at their paths in the repository. */
const deploymentFiles = [
  "compose.yaml",
  "packaging/compose/*",
  "packaging/systemd/*",
  "docs/deploy/**",
];

/** Copies the deployment's files of the repository to `out`: units, Compose, manifests, dashboard and alerts. */
export const copyDeploymentFiles = async (out: string): Promise<void> => {
  for (const path of repositoryFiles(...deploymentFiles)) {
    await mkdir(dirname(join(out, path)), { recursive: true });
    await copyFile(path, join(out, path));
  }
};

/** Returns where a file of the repository is in the rendered documents, relative to their folder; undefined if it is not there. */
const renderedPath = (path: string): string | undefined => {
  if (path === "README.md" || path === "CHANGELOG.md")
    return path.toLowerCase().replace(".md", ".html");
  if (path === "docs/README.md") return "index.html";
  if (path.startsWith("docs/deploy/")) return `../deploy/${path}`;
  if (!path.startsWith("docs/")) return undefined;
  return path.slice("docs/".length).replace(/\.md$/, ".html");
};

/**
 * Renders README, changelog and docs/ as HTML into `out`, readable without a network, with their images. Links lead to these pages and to the
 * deployment's files beside `out`; a link to a source file becomes its text.
 */
export const renderDocuments = async (out: string): Promise<void> => {
  const pages = repositoryFiles("README.md", "CHANGELOG.md", "docs/*.md");
  const images = repositoryFiles("docs/images/*");
  const known = new Set([...pages, ...images, ...repositoryFiles("docs/deploy/**")]);
  const write = async (path: string, put: (target: string) => Promise<void>) => {
    const target = join(out, renderedPath(path) ?? path);
    await mkdir(dirname(target), { recursive: true });
    await put(target);
  };
  for (const path of pages) {
    const html = renderPage(path, await readFile(path, "utf8"), known);
    await write(path, (target) => writeFile(target, html));
  }
  for (const path of images) await write(path, (target) => copyFile(path, target));
};

const renderPage = (path: string, markdown: string, known: ReadonlySet<string>): string => {
  const slugger = new GithubSlugger();
  const from = dirname(renderedPath(path) ?? "");
  /** Returns the target of a link in the rendered documents; undefined for a file that is not among them. */
  const resolve = (href: string): string | undefined => {
    if (/^[a-z][a-z0-9+.-]*:/i.test(href) || href.startsWith("#")) return href;
    const [file = "", anchor] = href.split("#");
    const target = normalize(join(dirname(path), decodeURI(file)));
    const rendered = known.has(target) ? renderedPath(target) : undefined;
    if (rendered === undefined) return undefined;
    return relative(from, rendered) + (anchor === undefined ? "" : `#${anchor}`);
  };
  let title = path;
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const text = this.parser.parseInline(tokens, this.parser.textRenderer);
        if (depth === 1) title = text;
        return `<h${depth} id="${slugger.slug(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const target = resolve(href);
        const text = this.parser.parseInline(tokens);
        return target === undefined ? text : `<a href="${escapeHtml(target)}">${text}</a>`;
      },
      image({ href, text }) {
        return `<img src="${escapeHtml(resolve(href) ?? href)}" alt="${escapeHtml(text)}">`;
      },
      // Comments say how the repository tests a block.
      html: ({ text }) => (text.trimStart().startsWith("<!--") ? "" : text),
    },
  });
  const body = marked.parse(markdown, { async: false });
  const home = relative(from, "index.html");
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
<p><a href="${home}">Documentation</a></p>
${body}</html>
`;
};

const escapeHtml = (text: string): string =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll('"', "&quot;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");

const style = `:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}
pre{overflow-x:auto;padding:.75rem;border:1px solid #8886}code,pre{font:14px/1.45 ui-monospace,monospace}
table{border-collapse:collapse;display:block;overflow-x:auto}th,td{border:1px solid #8886;padding:.25rem .5rem;text-align:left}
img{max-width:100%}`;
