import { html } from "hono/html";

/** The product's name on its pages. */
export const product = "Collector fleet";

/** URL paths of the parts of a page that web renders itself; without them the page is plain. */
export interface PageLinks {
  iconPath?: string | undefined;
  stylePath?: string | undefined;
  /** The script that applies the chosen theme. */
  themePath?: string | undefined;
}

/** HTML whose parts are escaped. */
export type Html = ReturnType<typeof html>;

/** Renders a page with one card, which needs no JavaScript. */
export const cardPage = ({
  title,
  card,
  links: { iconPath, stylePath, themePath },
}: {
  title: string;
  card: Html;
  links: PageLinks;
}): Html => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · ${product}</title>
${iconPath && html`<link rel="icon" href="${iconPath}" type="image/svg+xml">`}
${themePath && html`<script src="${themePath}"></script>`}
${stylePath && html`<link rel="stylesheet" href="${stylePath}">`}
</head>
<body class="login">
<main class="login-card">
${card}
</main>
</body>
</html>
`;
