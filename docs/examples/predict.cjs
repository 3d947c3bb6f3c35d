// Predicts rows of a JSON file by a file of `pyro-gcm export`, without Python:
//   npm install onnxruntime-node
//   node predict.cjs model.onnx rows.json
const { readFileSync } = require("node:fs");
const ort = require("onnxruntime-node");

async function main(model, file) {
  const session = await ort.InferenceSession.create(model);
  const rows = JSON.parse(readFileSync(file, "utf8")); // [{"bid": 4.5, "site": null}, ...]
  const columns = {};
  for (const { name, type } of session.inputMetadata) {
    const values = rows.map((row) => row[name] ?? null);
    const column =
      type === "string"
        ? values.map((value) => value ?? "")
        : Float64Array.from(values, (value) => value ?? NaN);
    columns[name] = new ort.Tensor(type, column, [rows.length]);
  }
  const { prediction } = await session.run(columns);
  console.log(JSON.stringify([...prediction.data]));
}

main(...process.argv.slice(2));
