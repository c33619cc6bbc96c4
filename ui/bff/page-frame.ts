import { html } from "hono/html";
import type { WebContext } from "./request.ts";

/** The product's name on its pages. */
export const product = "Collector fleet";

/** HTML whose parts are escaped. */
export type Html = ReturnType<typeof html>;

/** Answers with a page of one card, which needs no JavaScript. */
export const showCard = (c: WebContext, title: string, card: Html, status = 200) => {
  const { iconPath, stylePath, themePath } = c.get("links");
  const page = html`<!doctype html>
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
  return c.html(page, status as 200);
};
