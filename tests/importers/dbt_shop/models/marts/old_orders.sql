{{ config(enabled=false) }}
select * from {{ ref('orders') }}
