// Visible text whose contrast with what is behind it is below 4.5 (WCAG AA), described.
() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const pixel = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const linear = (share) => (share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) =>
    0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
  const low = [];
  const texts = "p, td, th, dt, dd, h1, h2, h3, h4, figcaption, small, button, a, label, span, summary";
  for (const element of document.querySelectorAll(texts)) {
    if (!element.innerText || !element.checkVisibility()) continue;
    let behind = element;
    const opaque = (one) => pixel(getComputedStyle(one).backgroundColor)[3] > 200;
    while (behind !== document.body && !opaque(behind)) behind = behind.parentElement;
    const front = luminance(pixel(getComputedStyle(element).color));
    const back = luminance(pixel(getComputedStyle(behind).backgroundColor));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) low.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}: ${element.innerText}`);
  }
  return low;
}
